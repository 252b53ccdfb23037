# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""How an address range is divided, and what is refused."""

from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.addresses import (
    AddressPlanError,
    network,
    normal_cidr,
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


def test_more_zones_than_there_is_room_for():
    with pytest.raises(AddressPlanError, match=r"^network_cidr: .* has room for 2 zones, but the cluster has 3"):
        subnets("192.168.0.0/26", ["a", "b", "c"], {})


@pytest.mark.parametrize(
    ("cidr", "message"),
    [
        ("10.0.0.0/8", "prefix length from /16 to /27"),
        ("10.0.0.0/28", "prefix length from /16 to /27"),
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


def test_addresses_are_written_as_aws_does():
    assert normal_cidr("203.0.113.7") == "203.0.113.7/32"
