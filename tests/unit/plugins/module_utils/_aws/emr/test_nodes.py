"""Tests that check which nodes of an EMR cluster are new, and which nodes are terminated when the cluster shrinks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClientError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import nodes
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import inventory
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.membership_tags import MembershipError


def instance(name, role, number=None, minutes=0):
    tags = {nodes.ROLE_TAG: role, "deeplearning:cluster": "bert", **({"deeplearning:number": str(number)} if number else {})}
    return {
        "InstanceId": name,
        "InstanceType": "m5.xlarge",
        "LaunchTime": datetime(2026, 1, 1) + timedelta(minutes=minutes),
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "PrivateIpAddress": "10.0.0.1",
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


NODES = [
    instance("i-m", "MASTER", 1),
    instance("i-c2", "CORE", 2),
    instance("i-t4", "TASK", 4),
    instance("i-c3", "CORE", 3),
    instance("i-new", "CORE"),
]


def test_nodes_without_a_number_are_new():
    assert nodes.unnumbered(NODES) == ("i-new",)


@pytest.mark.parametrize(
    ("counts", "surplus"),
    [
        ({"CORE": 3, "TASK": 1}, ()),
        ({"CORE": 2, "TASK": 1}, ("i-new",)),
        ({"CORE": 1, "TASK": 0}, ("i-c3", "i-new", "i-t4")),
        ({"CORE": 5, "TASK": 1}, ()),
    ],
)
def test_the_nodes_with_the_highest_numbers_end(counts, surplus):
    assert nodes.surplus(NODES, counts) == surplus


def test_core_and_task_nodes_are_workers_and_new_ones_get_free_numbers():
    found = inventory.nodes("bert", NODES, nodes.EMR_NODES)
    assert [(node.name, node.group, node.instance_id) for node in found] == [
        ("bert-master", "master", "i-m"),
        ("bert-worker2", "workers", "i-c2"),
        ("bert-worker3", "workers", "i-c3"),
        ("bert-worker4", "workers", "i-t4"),
        ("bert-worker5", "workers", "i-new"),
    ]


def test_a_cluster_with_several_masters_is_refused():
    masters = [instance("i-a", "MASTER"), instance("i-b", "MASTER")]
    with pytest.raises(MembershipError, match=r"i-a and i-b: more than one instance is running in EMR cluster bert, .*with one master"):
        inventory.nodes("bert", masters, nodes.EMR_NODES)


def test_the_volumes_of_one_node_of_each_role_are_read():
    asked = []

    def retrieve(*_call, **arguments):
        asked.append(sorted(arguments["Filters"][0]["Values"]))
        disk = {"VolumeType": "gp3", "Size": 15, "Iops": 3000, "Throughput": 125}
        return [{**disk, "Attachments": [{"InstanceId": node}]} for node in ("i-new", "i-m", "i-new")]

    root = ("gp3", 15, 3000, 125)
    reader = SimpleNamespace(retrieve=retrieve)
    assert nodes.volumes_of(reader, NODES) == {"MASTER": [root], "CORE": [root, root]}
    assert asked == [["i-m", "i-new", "i-t4"]]
    assert nodes.volumes_of(reader, []) == {}


def test_without_the_permission_no_volume_is_known():
    def refuse(*_call, **_arguments):
        raise ClientError({"Error": {"Code": "UnauthorizedOperation"}}, "DescribeVolumes")

    assert nodes.volumes_of(SimpleNamespace(retrieve=refuse), NODES) == {}
    (node,) = inventory.nodes("bert", NODES[:1], nodes.EMR_NODES)
    assert [product.name for product, _quantity in nodes.EMR_NODES.products(node.as_dict())] == ["instance", "emr", "volumes"]


@pytest.mark.parametrize(
    ("state", "end", "policy", "expected"),
    [
        ("WAITING", None, {"IdleTimeout": 1800}, {"ended": False, "reason": "", "end": None, "idle_seconds": 1800}),
        ("WAITING", None, None, {"ended": False, "reason": "", "end": None, "idle_seconds": 0}),
        ("TERMINATED", 2, {"IdleTimeout": 1800}, {"ended": True, "reason": "Why.", "end": "2026-01-01T10:00:00Z", "idle_seconds": 0}),
        ("TERMINATING", None, None, {"ended": True, "reason": "Why.", "end": None, "idle_seconds": 0}),
    ],
)
def test_the_status_of_the_recorded_cluster(state, end, policy, expected):
    """The SDK returns times in the zone of this machine."""
    moment = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=end))) if end else None
    status = {"State": state, "StateChangeReason": {"Message": "Why."}, "Timeline": {"EndDateTime": moment} if moment else {}}
    clients = SimpleNamespace(
        get_parameters=lambda **_names: {"Parameters": [{"Value": "j-1", "Version": 1}]},
        describe_cluster=lambda **_id: {"Cluster": {"Id": "j-1", "Status": status}},
        get_auto_termination_policy=lambda **_id: {"AutoTerminationPolicy": policy},
    )
    reader = SimpleNamespace(cluster="bert", client=lambda _service: clients)
    assert nodes.status(reader) == {"id": "j-1", **expected}


@pytest.mark.parametrize("code", ["AccessDeniedException", "ValidationException"])
def test_a_status_without_the_permission_lacks_only_the_end_of_idle_clusters(monkeypatch, code):
    def refuse(**_id):
        raise ClientError({"Error": {"Code": code}}, "GetAutoTerminationPolicy")

    clients = SimpleNamespace(
        get_parameters=lambda **_names: {"Parameters": [{"Value": "j-1", "Version": 1}]},
        describe_cluster=lambda **_id: {"Cluster": {"Id": "j-1", "Status": {"State": "WAITING"}}},
        get_auto_termination_policy=refuse,
    )
    assert nodes.status(SimpleNamespace(cluster="bert", client=lambda _service: clients))["idle_seconds"] == 0


def test_without_a_record_there_is_no_status():
    reader = SimpleNamespace(cluster="bert", client=lambda _service: SimpleNamespace(get_parameters=lambda **_names: {"Parameters": []}))
    assert nodes.status(reader) is None
