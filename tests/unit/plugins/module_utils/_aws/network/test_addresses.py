"""Tests that check how an address range is divided, and which ranges are refused."""

from __future__ import annotations

import ipaddress
import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.addresses import (
    AddressPlanError,
    chosen_ranges,
    hosts,
    network,
    normal_cidr,
    range_errors,
    room,
    subnets,
)


def test_default_range_is_cut_into_eight():
    assert subnets("10.0.0.0/16", ["us-east-1a"], {}) == {"private-us-east-1a": "10.0.0.0/19", "public-us-east-1a": "10.0.128.0/19"}


def test_the_small_range_of_the_originals_holds_two_zones():
    plan = subnets("192.168.0.0/26", ["a", "b"], {})
    assert sorted(plan.values()) == ["192.168.0.0/28", "192.168.0.16/28", "192.168.0.32/28", "192.168.0.48/28"]


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "172.16.0.0/20", "192.168.0.0/24", "192.168.0.0/26", "192.168.0.0/27"])
def test_subnets_do_not_overlap_and_lie_inside(cidr):
    zones = ["a", "b", "c", "d"][: 1 if cidr.endswith("/27") else 2]
    blocks = [ipaddress.ip_network(block) for block in subnets(cidr, zones, {}).values()]
    assert len(blocks) == 2 * len(zones)
    assert all(block.subnet_of(ipaddress.ip_network(cidr)) and block.prefixlen <= 28 for block in blocks)
    assert not any(one.overlaps(other) for one in blocks for other in blocks if one is not other)


def test_subnets_that_exist_keep_their_blocks_when_zones_come_and_go():
    first = subnets("10.0.0.0/16", ["b", "c"], {})
    second = subnets("10.0.0.0/16", ["a", "c"], first)
    assert second["private-c"] == first["private-c"]
    assert set(second.values()).isdisjoint({first["private-b"], first["public-b"]})


def test_chosen_ranges_are_kept_and_other_subnets_stay_out_of_them():
    chosen = {"private-a": "10.0.0.0/18", "public-b": "10.0.130.0/28"}
    plan = subnets("10.0.0.0/16", ["a", "b"], chosen)
    assert plan == {**chosen, "private-b": "10.0.64.0/19", "public-a": "10.0.160.0/19"}


def test_chosen_ranges_can_leave_no_room_for_other_subnets():
    with pytest.raises(
        AddressPlanError, match=r"^private_subnet_cidrs: the other subnets of '192.168.0.0/26' leave no /28 block .* subnet of b"
    ):
        subnets("192.168.0.0/26", ["a", "b"], {"private-a": "192.168.0.0/27"})
    both = {"private-a": "192.168.0.32/27", "public-a": "192.168.0.0/27"}
    assert subnets("192.168.0.0/26", ["a"], both) == both


def options(private=None, public=None, cidr="10.0.0.0/16"):
    return {"network_cidr": cidr, "private_subnet_cidrs": private, "public_subnet_cidrs": public or {}}


def test_ranges_are_written_as_aws_writes_them():
    assert chosen_ranges(options({"a": "10.0.0.0/255.255.255.0"}, {"a": "10.0.1.0/28"})) == {
        "private-a": "10.0.0.0/24",
        "public-a": "10.0.1.0/28",
    }


@pytest.mark.parametrize(
    ("given", "existing", "messages"),
    [
        (options({"a": "10.0.0.0/16"}), {}, []),
        (options({"a": "10.0.0.0/28"}, {"b": "10.0.0.16/28"}), {"private-b": "10.0.0.32/28"}, []),
        (options({"a": "10.0.1.0/24"}), {"private-a": "10.0.0.0/19"}, []),  # the plan refuses this change and states the reason
        (options({"a": "x"}, cidr="y"), {}, []),
        (options({"a": "10.0.0.0/15"}), {}, ["private_subnet_cidrs: '10.0.0.0/15' is too large or too small.* from /16 to /28"]),
        (options({"a": "10.0.0.0/29"}), {}, ["private_subnet_cidrs: '10.0.0.0/29' is too large or too small"]),
        (options({"a": "10.0.0.1/24"}), {}, ["private_subnet_cidrs: '10.0.0.1/24' is not an IPv4 address range .*host bits"]),
        (options({}, {"a": "fd00::/64"}), {}, ["public_subnet_cidrs: 'fd00::/64' is not an IPv4 address range"]),
        (options({}, {"a": 24}), {}, ["public_subnet_cidrs: '24' is not an IPv4 address range"]),
        (options({"a": "10.1.0.0/24"}), {}, ["private_subnet_cidrs: 10.1.0.0/24 is not part of 10.0.0.0/16, the range in network_cidr"]),
        (options({"c": "10.0.0.0/24"}), {}, [r"private_subnet_cidrs: c is not a zone of the cluster \(a, b\)"]),
        (
            options({"a": "10.0.0.0/24", "b": "10.0.0.0/24"}, {"a": "10.0.0.128/28"}),
            {"public-b": "10.0.0.0/28"},
            [
                "private_subnet_cidrs: 10.0.0.0/24 of subnet private-a overlaps 10.0.0.0/24 of subnet private-b",
                "private_subnet_cidrs: 10.0.0.0/24 of subnet private-a overlaps 10.0.0.128/28 of subnet public-a",
                "private_subnet_cidrs: 10.0.0.0/24 of subnet private-a overlaps 10.0.0.0/28 of subnet public-b",
                "private_subnet_cidrs: 10.0.0.0/24 of subnet private-b overlaps 10.0.0.128/28 of subnet public-a",
                "private_subnet_cidrs: 10.0.0.0/24 of subnet private-b overlaps 10.0.0.0/28 of subnet public-b",
            ],
        ),
    ],
)
def test_ranges_of_subnets_that_are_refused(given, existing, messages):
    found = list(range_errors(given, ["a", "b"], existing))
    assert len(found) == len(messages)
    assert all(re.match(message, text) for message, text in zip(messages, found, strict=True)), found


def test_more_zones_than_there_is_room_for():
    with pytest.raises(AddressPlanError, match=r"^network_cidr: .* has room for 2 zones, but the cluster has 3"):
        subnets("192.168.0.0/26", ["a", "b", "c"], {})


@pytest.mark.parametrize(
    ("cidr", "message"),
    [
        ("10.0.0.0/8", "too large, because the largest VPC is a /16. Specify a prefix length from /16 to /27"),
        ("10.0.0.0/28", "too small, because the smallest subnet is a /28. Specify a prefix length from /16 to /27"),
        ("10.0.0.1/16", "host bits set"),
        ("ten", "is not an IPv4 address range"),
        ("fd00::/64", "is not an IPv4 address range"),
    ],
)
def test_ranges_that_are_refused(cidr, message):
    with pytest.raises(AddressPlanError, match=message):
        network(cidr)


@pytest.mark.parametrize(("mask", "zones", "expected"), [(16, 1, 8187), (26, 1, 11), (26, 2, 22), (24, 1, 27), (27, 1, 11)])
def test_room_for_hosts_leaves_out_what_aws_keeps(mask, zones, expected):
    assert room(mask, zones) == expected


def test_a_subnet_of_the_originals_holds_27_hosts():
    assert hosts("192.168.0.32/27") == 27


def test_addresses_are_written_as_aws_does():
    assert normal_cidr("203.0.113.7") == "203.0.113.7/32"
