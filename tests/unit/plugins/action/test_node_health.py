"""Tests that check which arguments the action sends to a node, and how it processes the node's result."""

from __future__ import annotations

import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.action import node_health as action

FINDING = {"check": "disks", "severity": "restart", "message": "/: full."}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that runs the action on a node with the given result and returns the action's result and the node's arguments."""

    def run(answer, **arguments):
        task = SimpleNamespace(args={"user": "ubuntu", **arguments}, async_val=0, check_mode=False, action="node_health")
        loader = SimpleNamespace(get_basedir=lambda: str(tmp_path))
        plugin = action.ActionModule(task, Mock(), Mock(), loader, Mock(), Mock())
        sent = {}

        def execute(_name, module_args, task_vars):
            sent.update(module_args)
            return answer

        monkeypatch.setattr(plugin, "_execute_module", execute)
        return plugin.run(task_vars={"inventory_hostname": "c-1"}), sent

    return run


def test_findings_are_handed_on(run):
    result, sent = run({"findings": [FINDING], "stored": True, "time": time.time()})
    assert result["findings"] == [FINDING]
    assert result["stored"] is True
    assert sent["programs"] == []


def test_programs_are_sent(run, tmp_path):
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "own").touch(mode=0o755)
    _result, sent = run({"findings": [], "time": time.time()}, checks="checks")
    assert sent["programs"] == [{"name": "own", "content": ""}]


@pytest.mark.parametrize(("context", "checks"), [("on_demand", ["disks", "clock"]), ("between_nodes", ["disks"]), ("deep", ["disks"])])
def test_the_clock_is_compared_once(run, context, checks):
    result, _sent = run({"findings": [FINDING], "time": time.time() - 1000}, context=context)
    assert [each["check"] for each in result["findings"]] == checks


def test_a_time_that_is_no_time_is_refused(run):
    with pytest.raises(AnsibleActionFail, match="the result of node_health is not valid"):
        run({"findings": [], "time": None})


def test_a_failure_is_handed_on(run):
    assert run({"failed": True, "msg": "no"})[0]["msg"] == "no"


def test_a_missing_folder_is_refused_before_anything_runs(run):
    with pytest.raises(AnsibleActionFail, match="checks: 'nowhere' is not a directory"):
        run({"findings": [], "time": 0.0}, checks="nowhere")
