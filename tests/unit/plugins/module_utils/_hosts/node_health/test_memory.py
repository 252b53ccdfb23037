"""Tests of the findings about the memory of a host."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import memory

from .problems import severities

NODE = CheckedNode("ubuntu")


def test_little_memory_is_told():
    found = memory.read_memory(NODE)
    assert found["MemTotal"] > found["MemAvailable"] > 0
    assert severities(memory.decide_memory({"MemTotal": 1000, "MemAvailable": 49}, NODE)) == ["monitor"]
    assert memory.decide_memory({"MemTotal": 1000, "MemAvailable": 50}, NODE) == []
