"""Tests that check how instances become numbered nodes, and which errors occur if they cannot become nodes."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.inventory import nodes
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.membership_tags import MembershipError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.node_service import AUTO_SCALING

from .described import instance


def test_an_address_that_ec2_does_not_return_yet_is_named():
    """DescribeInstances is eventually consistent."""
    young = {key: value for key, value in instance("i-young", "bert-workers", 9).items() if key != "PrivateIpAddress"}
    with pytest.raises(MembershipError, match="does not return the private address of i-young yet"):
        nodes("bert", [instance("i-master", "bert-master", 7, number=1), young], AUTO_SCALING)


def test_nodes_by_number():
    instances = [
        instance("i-young", "bert-workers", 9),
        instance("i-three", "bert-workers", 5, number=3),
        instance("i-old", "bert-workers", 4, more={"NodeType": "Master"}),
        instance("i-master", "bert-master", 7, number=1, public_ip="203.0.113.4"),
        instance("i-other", "bert-bastion", 1, more={"NodeType": "Worker"}),
    ]
    found = nodes("bert", instances, AUTO_SCALING)
    assert [(node.name, node.instance_id) for node in found] == [
        ("bert-master", "i-master"),
        ("bert-worker2", "i-old"),
        ("bert-worker3", "i-three"),
        ("bert-worker4", "i-young"),
    ]
    assert (found[0].public_ip, found[1].public_ip, found[1].hostname) == ("203.0.113.4", None, found[1].name)


@pytest.mark.parametrize(
    ("instances", "message"),
    [
        ([("i-a", "bert-workers", 2), ("i-b", "bert-workers", 2)], "Instances i-a and i-b: each has the number 2"),
        (
            [("i-b", "bert-master", None), ("i-a", "bert-master", None)],
            "Instances i-a and i-b: more than one instance is running in Auto Scaling group bert-master",
        ),
        ([("i-a", "bert-workers", "1")], "Instance i-a: the tag deeplearning:number is '1', but worker numbers start at 2"),
        ([("i-a", "bert-workers", "many")], "the tag deeplearning:number is 'many'"),
        ([("i-a", "bert-master", "2")], "the tag deeplearning:number is '2', but the master has number 1"),
    ],
)
def test_nodes_that_cannot_be_told_apart(instances, message):
    described = [instance(item, group, minutes, number) for minutes, (item, group, number) in enumerate(instances)]
    with pytest.raises(MembershipError, match=message):
        nodes("bert", described, AUTO_SCALING)
