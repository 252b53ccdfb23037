"""Tests of the check of the service that connects GPUs through NVSwitches."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common import gpus
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import fabric_manager, gpu
from gpu_tools import program

NODE = CheckedNode("ubuntu", instance_type="p4d.24xlarge")


@pytest.mark.parametrize(
    ("state", "status", "switches", "uptime", "severity"),
    [
        ("active", 0, 6, 9e3, None),
        ("failed", 3, 6, 60.0, "restart"),
        ("inactive", 4, 6, 60.0, "restart"),
        ("activating", 3, 6, 60.0, "monitor"),
        ("activating", 3, 6, 9e3, "restart"),
        ("deactivating", 3, 6, 9e3, "monitor"),
        ("", 1, 6, 9e3, "monitor"),
        ("failed", 3, 0, 9e3, None),
    ],
)
def test_a_service_on_which_all_gpus_depend(tmp_path, monkeypatch, state, status, switches, uptime, severity):
    (tmp_path / "systemctl").write_text(program(("'is-active nvidia-fabricmanager'", state, status)))
    (tmp_path / "systemctl").chmod(0o755)
    (tmp_path / "switches").mkdir()
    for number in range(switches):
        (tmp_path / f"switches/0000:0{number}:00.0").mkdir()
    monkeypatch.setattr(gpus, "DIRECTORIES", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(gpu, "SWITCHES", str(tmp_path / "switches"))
    monkeypatch.setattr(gpu, "read_uptime", lambda: uptime)
    found = fabric_manager.decide(fabric_manager.read(NODE), NODE)
    assert [each for each, _message in found] == ([severity] if severity else [])
    assert all(message.startswith("nvidia-fabricmanager: ") for _severity, message in found)


def test_a_host_without_a_driver(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "SWITCHES", str(tmp_path / "missing"))
    assert fabric_manager.decide(fabric_manager.read(NODE), NODE) == []
