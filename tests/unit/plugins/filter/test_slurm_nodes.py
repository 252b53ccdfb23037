"""Tests that Slurm's nodes are derived from host variables."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.deeplearning.cluster.plugins.filter.slurm_nodes import slurm_nodes

HARDWARE = {"cpus": 4, "sockets": 1, "cores": 2, "threads": 2, "memory": 1000, "gpus": 1}
UNKNOWN = {"gpu_type": "", "disk": 0}


def host(number, **further):
    name = "demo-master" if number == 1 else f"demo-worker{number}"
    return {"deeplearning_number": number, "deeplearning_hostname": name, "deeplearning_private_ip": f"10.0.0.{number}", **further}


def test_nodes_are_ordered_and_have_what_they_reported():
    place = {"deeplearning_instance_type": "p5.48xlarge", "deeplearning_zone": "us-east-1a"}
    found = slurm_nodes([host(2, found={"hardware": HARDWARE}, **place), host(1), host(3, found={"unreachable": True})], "found")
    assert found == [
        {"name": "demo-master", "address": "10.0.0.1", "features": []},
        {"name": "demo-worker2", "address": "10.0.0.2", "features": ["p5.48xlarge", "us-east-1a"], "hardware": {**HARDWARE, **UNKNOWN}},
        {"name": "demo-worker3", "address": "10.0.0.3", "features": []},
    ]


def test_impossible_hardware_is_ignored():
    nodes = slurm_nodes([host(1, found={"hardware": HARDWARE}), host(2, found={"hardware": {**HARDWARE, "cpus": 10**30}})], "found")
    assert [set(node) for node in nodes] == [{"name", "address", "features", "hardware"}, {"name", "address", "features"}]


def test_missing_variables_are_reported():
    with pytest.raises(AnsibleFilterError, match="deeplearning_number: the variable is not set"):
        slurm_nodes([{}], "found")
