"""Tests that the node in the parameters must be this host."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.slurm.configuration import Hardware, SlurmNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import node
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.membership import REASON, NodeState

from unit.modules import ExitError

HARDWARE = Hardware(4, 1, 2, 2, 15000, 0)
ENTRY = {"name": "demo-worker2", "address": "10.0.1.5", "hardware": HARDWARE._asdict(), "features": []}


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


GPUS = {**ENTRY, "hardware": HARDWARE._replace(gpus=8)._asdict()}
TOO_FEW = NodeState(frozenset(("IDLE", "DRAIN")), "gres/gpu count reported lower than configured (0 < 8)")
IDLE = NodeState(frozenset(("IDLE",)), TOO_FEW.reason)
LEAVING = NodeState(frozenset(("IDLE", "DRAIN")), REASON)
BROKEN = NodeState(frozenset(("IDLE", "DRAIN")), "broken fan")


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the step for a node. Return the drop-in, whether slurmd restarts, and the state that the node gets, if any."""
    monkeypatch.setattr(node.socket, "gethostname", lambda: "demo-worker2")
    monkeypatch.setattr(node, "refuse_other_queue", lambda *_arguments: None)

    def step(before=None, after=IDLE, nodes=(GPUS,), files=None):
        told = SimpleNamespace(written=[], restarts=False, state="")

        def end(**_result):
            raise ExitError

        def service(_module, _unit, _wanted, changed):
            told.restarts = changed
            return []

        def change(_module, _name, _found, state):
            told.state = state
            return []

        monkeypatch.setattr(node, "converge", lambda _module, files: told.written.extend(files) or [])
        monkeypatch.setattr(node, "converge_service", service)
        monkeypatch.setattr(node, "change_state", change)
        monkeypatch.setattr(node, "current_state", lambda *_arguments: before)
        monkeypatch.setattr(node, "wait_for_registration", lambda *_arguments: after)
        params = {"nodes": list(nodes), "settings": "0f343b093155", "timeout": 5, "files": files or {}}
        with pytest.raises(ExitError):
            node.ensure_present(SimpleNamespace(params=params, check_mode=False, exit_json=end))
        return told

    return step


@pytest.mark.parametrize(
    ("before", "after", "restarts", "state"),
    [
        (TOO_FEW, TOO_FEW, True, "resume"),
        (TOO_FEW, IDLE, True, ""),
        (None, TOO_FEW, False, ""),
        (LEAVING, LEAVING, False, "resume"),
        (BROKEN, BROKEN, False, ""),
        (IDLE, IDLE, False, ""),
    ],
)
def test_a_node_that_slurm_drained_for_missing_gpus_comes_back_with_all_of_them(run, before, after, restarts, state):
    """slurmd counts its GPUs when it starts, and slurmctld does not resume a node by itself. Slurm refuses to resume an idle node."""
    told = run(before, after)
    assert (told.restarts, told.state) == (restarts, state)


def test_slurmd_starts_after_the_driver_has_created_the_last_gpu(run):
    content = run().written[0].content
    assert "After=nvidia-persistenced.service nvidia-fabricmanager.service" in content
    assert "/dev/nvidia7 " in content
    assert "/dev/nvidia" not in run(nodes=[ENTRY]).written[0].content, "hosts without GPUs do not wait"


def test_scripts_are_on_each_host_and_are_deleted_later(run, monkeypatch, tmp_path):
    files = {"prolog.sh": "#!/bin/sh\n", "topology.conf": "SwitchName=a\n"}
    script, drop_in = run(files=files).written
    assert (script.path, script.mode) == ("/etc/slurm/prolog.sh", 0o755)
    (tmp_path / "drop-in").write_text(drop_in.content)
    monkeypatch.setattr(node, "drop_in", lambda _unit: str(tmp_path / "drop-in"))
    assert [(file.path, file.content) for file in run().written[1:]] == [("/etc/slurm/prolog.sh", None)]
