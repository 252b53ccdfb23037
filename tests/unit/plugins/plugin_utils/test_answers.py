"""Tests of actions on nodes. tests/security contains the tests of what nodes can return."""

from __future__ import annotations

from importlib import import_module
from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import answers


class Action(answers.NodeAction, module="sge_info"):
    """An action without a body of its own."""


@pytest.mark.parametrize(
    ("action", "module"),
    [("idle_reports", "idle_reports"), ("munge_key", "munge_key"), ("training_job_logs", "training_job_info")],
)
def test_an_action_runs_the_module_of_the_same_name_or_the_one_that_it_names(action, module):
    """munge_key.py is a link to idle_reports.py."""
    plugin = import_module(f"ansible_collections.deeplearning.cluster.plugins.action.{action}")
    assert plugin.ActionModule._module == f"deeplearning.cluster.{module}"


def test_garbage_collections_of_an_action_skip_the_objects_of_the_main_process(monkeypatch):
    calls = []
    monkeypatch.setattr(answers.gc, "freeze", lambda: calls.append("freeze"))
    Action(MagicMock(args={}, check_mode=False, async_val=0), *[MagicMock()] * 5).run(task_vars={})
    assert calls == ["freeze"]


def test_no_garbage_is_collected_while_a_module_is_packed(monkeypatch):
    """A task can run a module many times, so garbage is collected between the runs."""

    def execute(*_arguments, **_options):
        assert not answers.gc.isenabled()
        raise MemoryError

    monkeypatch.setattr(answers.ActionBase, "_execute_module", execute)
    action = Action(MagicMock(args={}, check_mode=False, async_val=0), *[MagicMock()] * 5)
    assert "more than 1024 MiB of memory" in action._execute_module("deeplearning.cluster.sge_info", task_vars={})["msg"]
    assert answers.gc.isenabled()
