"""Tests that implausible hardware is ignored, with a warning that names the host."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.plugin_utils import queue_nodes

WORKERS = [{"number": number, "name": f"w{number}", "address": f"10.0.0.{number}"} for number in (1, 2, 3)]


def test_hosts_are_named_whose_hardware_is_implausible(monkeypatch):
    warnings = []
    monkeypatch.setattr(queue_nodes.Display, "warning", lambda _self, text: warnings.append(text))
    hardware = {"w1": {"cpus": 4}, "w2": {}, "w3": None}
    found = queue_nodes.with_hardware(WORKERS, {name: {"name": name} for name in hardware}, lambda result: hardware[result["name"]])
    assert found == [
        {"name": "w1", "address": "10.0.0.1", "cpus": 4},
        {"name": "w2", "address": "10.0.0.2"},
        {"name": "w3", "address": "10.0.0.3"},
    ]
    assert warnings == ["w3: the hardware that this host reports is implausible, and is ignored. Check the host."]


def test_only_requested_nodes_can_be_drained():
    answer = {"drained": ["w1"], "jobs": []}
    assert queue_nodes.only_requested(answer, {"nodes": ["w1", "w2"]}, "m", "slurm_drain") == answer
    assert queue_nodes.only_requested(answer, {"nodes": "w1,w2"}, "m", "slurm_drain") == answer
    assert queue_nodes.only_requested({"failed": True, "msg": "no"}, {}, "m", "slurm_drain") == {"failed": True, "msg": "no"}
    assert "'w1' was drained, which was not requested" in queue_nodes.only_requested(answer, {"nodes": ["w2"]}, "m", "slurm_drain")["msg"]
