"""Tests that the node in the parameters must be this host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import node
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.configuration import Hardware, SlurmNode

HARDWARE = Hardware(4, 1, 2, 2, 15000, 0)
ENTRY = {"name": "demo-worker2", "address": "10.0.1.5", "hardware": HARDWARE._asdict()}


@pytest.mark.parametrize("host_name", ["demo-worker2", None])
def test_a_host_is_the_node_of_its_name(host_name):
    assert node.own_node([ENTRY], host_name) == SlurmNode("demo-worker2", "10.0.1.5", HARDWARE)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{**ENTRY, "name": "demo-worker3"}], "this host's name is demo-worker2, not demo-worker3"),
        ([{**ENTRY, "hardware": None}], "the node component needs exactly one entry"),
        ([], "the node component needs exactly one entry"),
        ([ENTRY, ENTRY], "the node component needs exactly one entry"),
    ],
)
def test_another_host_is_told_what_to_do(nodes, message):
    with pytest.raises(ValueError, match=message):
        node.own_node(nodes, "demo-worker2")
