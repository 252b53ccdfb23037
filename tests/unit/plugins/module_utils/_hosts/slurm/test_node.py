"""Which of the nodes this host is."""

from __future__ import annotations

import socket

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import node
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.configuration import Hardware, Node

HARDWARE = Hardware(4, 1, 2, 2, 15000, 0, False)


@pytest.fixture(autouse=True)
def name(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "demo-worker2.ec2.internal")


def test_a_host_is_the_node_of_its_name():
    nodes = [{"name": "demo-worker2", "address": "10.0.1.5", "hardware": HARDWARE._asdict()}]
    assert node.own_node(nodes) == Node("demo-worker2", "10.0.1.5", HARDWARE)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{"name": "demo-worker3", "address": "10.0.1.5", "hardware": HARDWARE._asdict()}], "no entry has this host's name, demo-worker2"),
        ([{"name": "demo-worker2", "address": "10.0.1.5", "hardware": None}], "the hardware of demo-worker2 is missing"),
    ],
)
def test_a_host_without_an_entry_is_told_what_to_do(nodes, message):
    with pytest.raises(ValueError, match=message):
        node.own_node(nodes)
