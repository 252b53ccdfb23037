"""Tests of the errors that the validators find in the options of a Lustre file system."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.definition import NODES_GROUP, SELF, STORAGE_GROUP, VPC
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre import validators
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.definition import LUSTRE

OPTIONS = {"lustre": True, "lustre_file_system_id": None, "lustre_capacity": 2400, "lustre_data_repositories": []}


def links(*paths, s3="s3://sets/images"):
    return {"lustre_data_repositories": [{"path": path, "s3": s3} for path in paths]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"lustre_capacity": 1200}, []),
        ({"lustre_capacity": 4800}, []),
        ({"lustre_capacity": 0}, ["lustre_capacity: 0 GiB is not a valid size"]),
        ({"lustre_capacity": 3600}, ["lustre_capacity: 3600 GiB is not a valid size"]),
        ({"lustre_capacity": 3600, "lustre": False}, []),
        (links("/a", "/b"), []),
        (links("/"), []),
        (links("/a", "/ab"), []),
        (links("/a", "/a/b"), ["/a/b/ is in /a/"]),
        (links(*(f"/{number}" for number in range(8))), []),
        (links(*(f"/{number}" for number in range(9))), ["9 links exceed the limit. Specify at most 8"]),
        (links("a"), ["'a' is not a valid directory"]),
        (links("/a", s3="sets"), ["'sets' is not a bucket or prefix"]),
        (links("/a", s3="s3://Sets"), ["'s3://Sets' is not a bucket or prefix"]),
        (links("/a", s3="s3://sets--use1-az4--x-s3"), ["'s3://sets--use1-az4--x-s3' is not a bucket or prefix"]),
        ({**links("/a"), "lustre_file_system_id": "fs-1"}, ["an adopted file system is never changed"]),
    ],
)
def test_options(change, expected):
    found = list(validators.LustreOptions().check(Request(None, {**OPTIONS, **change}), []))
    assert len(found) == len(expected)
    assert all(text in finding for text, finding in zip(expected, found))


@pytest.mark.parametrize(("capacity", "findings"), [(1200, 1), (2400, 0), (4800, 0)])
def test_a_file_system_does_not_shrink(capacity, findings):
    own = Found(LUSTRE, "fs-1", {"capacity": 2400})
    found = list(validators.LustreOptions().check(Request(None, {**OPTIONS, "lustre_capacity": capacity}), [own]))
    assert len(found) == findings
    assert all("fs-1 has 2400 GiB and cannot shrink to 1200. Specify 2400" in finding for finding in found)


LUSTRE_PORTS = (("tcp", 988, 988), ("tcp", 1018, 1023))
EVERYWHERE = (("-1", -1, -1, "0.0.0.0/0"),)
ADOPTED = {**OPTIONS, "vpc_id": "vpc-1", "master_public_address": True}
SUBNETS = [
    Found(VPC, "vpc-1", {}, adopted=True),
    Found(Address("subnet", "private-us-east-1a"), "subnet-1", {"cidr": "10.0.1.0/24", "vpc": "vpc-1"}, adopted=True),
    Found(Address("subnet", "public-us-east-1a"), "subnet-2", {"cidr": "10.0.2.0/24", "vpc": "vpc-1"}, adopted=True),
]


def group(address, identifier, *sources, ports=LUSTRE_PORTS, adopted=True, egress=None):
    rules = frozenset((*each, source) for each in ports for source in sources)
    return Found(address, identifier, {"ingress": rules, "egress": rules if egress is None else frozenset(egress)}, adopted=adopted)


def nodes(*sources, **more):
    return group(NODES_GROUP, "sg-nodes", *sources, **more)


def storage(*sources, **more):
    return group(STORAGE_GROUP, "sg-storage", *sources, **more)


@pytest.mark.parametrize(
    ("change", "groups", "expected"),
    [
        ({}, [nodes("sg-storage"), storage("sg-nodes", SELF)], []),
        ({}, [nodes("sg-storage", egress=EVERYWHERE), storage("sg-nodes", SELF, egress=EVERYWHERE)], []),
        ({}, [nodes("10.0.0.0/16"), storage("10.0.0.0/16")], []),
        ({}, [nodes("10.0.1.0/24"), storage("10.0.0.0/16")], []),
        (
            {},
            [nodes("10.0.1.0/24"), storage("10.0.1.0/24", egress=EVERYWHERE)],
            ["sg-storage (storage) does not allow inbound traffic from the nodes"],
        ),
        ({"master_public_address": False}, [nodes("sg-storage"), storage("10.0.1.0/24")], []),
        (
            {},
            [nodes("sg-storage"), storage("sg-nodes", egress=EVERYWHERE)],
            ["sg-storage (storage) does not allow inbound traffic from itself on TCP ports 988"],
        ),
        ({}, [nodes("sg-storage"), storage("sg-nodes", SELF, egress=[])], ["outbound traffic to the nodes", "outbound traffic to itself"]),
        (
            {},
            [nodes("sg-storage", egress=[]), storage("sg-nodes", SELF)],
            ["sg-nodes (nodes) does not allow outbound traffic to the file system"],
        ),
        (
            {},
            [nodes(SELF, egress=EVERYWHERE), storage("sg-nodes", SELF)],
            ["sg-nodes (nodes) does not allow inbound traffic from the file system"],
        ),
        ({}, [nodes("sg-storage", ports=LUSTRE_PORTS[:1], egress=EVERYWHERE), storage("sg-nodes", SELF)], ["sg-nodes (nodes)"]),
        ({"additional_security_group_ids": ["sg-more"]}, [nodes("sg-storage"), storage("sg-more", SELF)], []),
        ({}, [group(NODES_GROUP, "sg-one", SELF), group(STORAGE_GROUP, "sg-one", SELF)], []),
        ({}, [nodes(adopted=False), storage("sg-nodes", SELF)], []),
        ({}, [nodes("sg-storage"), storage(adopted=False)], []),
        ({}, [storage(SELF, egress=EVERYWHERE)], ["from the nodes"]),
        ({"lustre": False}, [nodes(), storage()], []),
        ({"lustre_file_system_id": "fs-1"}, [nodes(), storage()], []),
        ({"vpc_id": None}, [nodes(), storage()], []),
        ({}, [nodes(), storage(), Found(LUSTRE, "fs-1", {})], []),
    ],
)
def test_adopted_groups_let_lustre_in(change, groups, expected):
    found = list(validators.LustreGroups().check(Request(None, {**ADOPTED, **change}), [*SUBNETS, *groups]))
    assert len(found) == len(expected)
    assert all(text in finding for text, finding in zip(expected, found))
