"""Tests that hosts cannot drain nodes that were not requested."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.plugin_utils import queue_nodes


def test_only_requested_nodes_can_be_drained():
    answer = {"drained": ["w1"], "jobs": []}
    assert queue_nodes.only_requested(answer, {"nodes": ["w1", "w2"]}, "m", "slurm_drain") == answer
    assert queue_nodes.only_requested(answer, {"nodes": "w1,w2"}, "m", "slurm_drain") == answer
    assert queue_nodes.only_requested({"failed": True, "msg": "no"}, {}, "m", "slurm_drain") == {"failed": True, "msg": "no"}
    assert "'w1' was drained, which was not requested" in queue_nodes.only_requested(answer, {"nodes": ["w2"]}, "m", "slurm_drain")["msg"]
