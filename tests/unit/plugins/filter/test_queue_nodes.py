"""Tests that the nodes of a queue are derived from host variables and from what the hosts have reported."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.deeplearning.cluster.plugins.filter import queue_nodes

HARDWARE = {"cpus": 4, "sockets": 1, "cores": 2, "threads": 2, "memory": 1000, "gpus": 1}
UNKNOWN = {"gpu_type": "", "disk": 0}
WARNING = "the hardware that this host reports is implausible, and is ignored. Check the host."


@pytest.fixture
def warnings(monkeypatch):
    told = []
    monkeypatch.setattr(queue_nodes.Display, "warning", lambda _self, text: told.append(text))
    return told


def host(number, **further):
    name = "demo-master" if number == 1 else f"demo-worker{number}"
    return {"deeplearning_number": number, "deeplearning_hostname": name, "deeplearning_private_ip": f"10.0.0.{number}", **further}


def test_nodes_of_slurm_are_ordered_and_have_what_they_reported(warnings):
    place = {"deeplearning_instance_type": "p5.48xlarge", "deeplearning_zone": "us-east-1a"}
    hosts = [host(2, found={"hardware": HARDWARE}, **place), host(1), host(3, found={"unreachable": True})]
    assert queue_nodes.queue_nodes(hosts, "slurm", "found") == [
        {"name": "demo-master", "address": "10.0.0.1", "features": []},
        {"name": "demo-worker2", "address": "10.0.0.2", "features": ["p5.48xlarge", "us-east-1a"], "hardware": {**HARDWARE, **UNKNOWN}},
        {"name": "demo-worker3", "address": "10.0.0.3", "features": []},
    ]
    assert warnings == []


def test_nodes_of_sge_are_ordered_and_have_what_they_reported(warnings):
    hosts = [host(2, found={"cpus": 4, "gpus": 2, "missing_packages": []}), host(1), host(3, found={"cpus": 4})]
    assert queue_nodes.queue_nodes(hosts, "sge", "found") == [
        {"name": "demo-master", "address": "10.0.0.1"},
        {"name": "demo-worker2", "address": "10.0.0.2", "cpus": 4, "gpus": 2},
        {"name": "demo-worker3", "address": "10.0.0.3"},
    ]
    assert warnings == []


@pytest.mark.parametrize(
    ("queue", "reported"), [("slurm", {"hardware": {**HARDWARE, "cpus": 10**30}}), ("sge", {"cpus": 10**30, "gpus": 1})]
)
def test_hosts_are_named_whose_hardware_is_implausible(warnings, queue, reported):
    (node,) = queue_nodes.queue_nodes([host(1, found=reported)], queue, "found")
    assert node.keys() - {"features"} == {"name", "address"}
    assert warnings == [f"demo-master: {WARNING}"]


@pytest.mark.parametrize("queue", ["slurm", "sge"])
def test_missing_variables_are_reported(queue):
    with pytest.raises(AnsibleFilterError, match="deeplearning_number: the variable is not set"):
        queue_nodes.queue_nodes([{}], queue, "found")


def test_a_queue_without_nodes_of_its_own_is_refused():
    with pytest.raises(AnsibleFilterError, match=r"queue_nodes: 'yarn' is not a queue with nodes\. Use slurm or sge\."):
        queue_nodes.queue_nodes([], "yarn", "found")
