"""Tests of how set-up steps run: how long the action polls a host, and what progress it displays."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.action import node_setup
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import output

from .conftest import Clock, make_action

VARIABLES = {"inventory_hostname": "worker2", "deeplearning_answer_timeout": 100, "hostvars": {}}
STEPS = [{"name": "tools", "command": "make", "timeout": 10, "secrets": {"TOKEN": "hunter2"}}, {"command": "true", "timeout": 20}]


@pytest.fixture
def action(monkeypatch):
    monkeypatch.setattr(node_setup, "time", Clock())
    shown = []
    monkeypatch.setattr(output.display, "display", lambda line, **_: shown.append(str(line)))

    def make(answers, done=False, **arguments):
        made = make_action(node_setup, **{"steps": STEPS, **arguments})
        made._loader.get_basedir.return_value = "/"
        made._execute_module = MagicMock(side_effect=answers)
        made._have_succeeded = MagicMock(return_value=done)
        made.shown = shown
        return made

    return make


def test_a_host_that_never_ends_is_not_asked_for_ever(action):
    def answers():
        for seconds in range(10000):
            yield {"finished": False, "progress": {"number": seconds % 2 + 1, "seconds": seconds}}

    made = action(answers())
    result = made.run(task_vars=VARIABLES)
    assert result["failed"]
    assert result["msg"] == "worker2: the set-up steps did not end within their timeouts. Check the host."
    assert made._execute_module.call_count <= 2 * 30 + 100 + 2


def test_progress_is_told_with_names_of_the_definition(action):
    progress = [{"number": 1, "seconds": 2}, {"number": 1, "seconds": 7}, {"number": 2, "seconds": 0}, {"number": 99, "seconds": 0}]
    made = action([*({"finished": False, "progress": each} for each in progress), {"finished": True, "changed": True, "ran": ["tools"]}])
    assert made.run(task_vars=VARIABLES)["changed"] is True
    assert made.shown == ["worker2: set-up step 1 (tools), 2 s", "worker2: set-up step 2 (command), 0 s"]
    sent = [call.kwargs["module_args"] for call in made._execute_module.call_args_list]
    assert len({each["attempt"] for each in sent}) == 1, "all calls belong to one attempt"


@pytest.mark.parametrize(("arguments", "done"), [({"state": "checked"}, False), ({}, True), ({"steps": []}, False)])
def test_no_module_runs_where_nothing_is_to_do(action, arguments, done):
    made = action([], done, **arguments)
    assert made.run(task_vars=VARIABLES)["changed"] is False


def test_steps_are_started_on_all_hosts_before_they_are_waited_for(action):
    made = action([{"finished": False, "changed": False, "progress": {"number": 1, "seconds": 0}}], state="started")
    started = made.run(task_vars=VARIABLES)
    assert made._execute_module.call_args.kwargs["module_args"]["wait"] == 0
    waits = action([{"finished": True, "changed": True, "ran": ["tools"]}], done=True, attempt=started["attempt"])
    assert waits.run(task_vars=VARIABLES)["changed"] is True, "even if the steps have ended in the meantime"
    assert waits._execute_module.call_args.kwargs["module_args"]["attempt"] == started["attempt"]
    assert "attempt" not in action([{"finished": True, "changed": True, "ran": ["tools"]}], state="started").run(task_vars=VARIABLES)


def test_errors_come_before_any_contact(action):
    made = action([], steps=[{"command": ""}, {"packages": []}])
    with pytest.raises(AnsibleActionFail, match="step 1: command: the value is empty") as told:
        made.run(task_vars=VARIABLES)
    assert "step 2: packages: the list is empty" in str(told.value)
    assert not made._have_succeeded.called


def test_a_failure_names_the_host(action):
    made = action([{"failed": True, "msg": "Step 1 (tools) failed."}])
    assert made.run(task_vars=VARIABLES)["msg"] == "worker2: Step 1 (tools) failed."
