"""Tests of Ctrl-C while the action follows logs. tests/hosts/test_job_logs.py tests Ctrl-C on real hosts."""

from __future__ import annotations

import contextlib
import os
import signal
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.deeplearning.cluster.plugins.action import training_job_logs

PROCESS = {"name": "rank0", "host": "w1", "part": "worker", "state": "running", "started": 0.0, "heartbeat": 5.0}
JOB = {"name": "digits", "state": "running", "directory": "/efs/jobs/digits", "process_count": 1, "processes": [PROCESS], "code": {}}
JOB.update(hosts=1, spares=0, began=1.0, ended=5.0, read=9.0, launcher="mpi", script="train.py")
SIZE = "1 process on 1 host, mpi train.py"


def listen(monkeypatch, has_terminal):
    """Replace the keyboard, and return a list to which the function that Ctrl-C calls is added."""
    keys = []

    @contextlib.contextmanager
    def interrupts(notice):
        keys.append(notice)
        yield has_terminal

    monkeypatch.setattr(training_job_logs, "interrupts", interrupts)
    return keys


def make_action():
    """Return the action for a job whose logs are followed. Its results come from `_execute_module`."""
    task = MagicMock(args={"name": "digits", "directory": "/efs/jobs", "follow": True}, check_mode=False, async_val=0)
    action = training_job_logs.ActionModule(task, *[MagicMock()] * 5)
    action._execute_module = MagicMock()
    return action


@pytest.mark.parametrize(
    ("has_terminal", "hint"),
    [(True, "press Ctrl-C to end this run; the job continues"), (False, "the job continues if Ansible is interrupted")],
)
def test_ctrl_c_ends_the_run_without_an_error_and_the_job_continues(monkeypatch, shown, has_terminal, hint):
    keys = listen(monkeypatch, has_terminal)
    action = make_action()

    def poll(*_arguments, **_options):
        state = "running"
        if action._execute_module.call_count == 2:
            for press in keys:
                press()
        if action._execute_module.call_count == 3:
            state = "succeeded"
        return {"jobs": [{**JOB, "state": state, "progress": [], "progress_offset": 0}]}

    action._execute_module.side_effect = poll
    result = action.run(task_vars={})
    assert result["job"]["state"] == "running"
    assert not result.get("failed")
    assert shown == [
        f"digits: 1 processes, logs in /efs/jobs/digits/logs; {hint}",
        "digits: the job continues, and this run ends within 10 s; press Ctrl-C again to end it at once",
        f"digits running for 8 s (since 1970-01-01 00:00:01 UTC), {SIZE}",
    ]


@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_the_end_of_the_logs_of_a_job_names_the_report(monkeypatch, shown, state):
    listen(monkeypatch, False)
    action = make_action()

    def poll(*_arguments, **_options):
        return {"jobs": [{**JOB, "state": state, "progress": [], "progress_offset": 0}]}

    action._execute_module.side_effect = poll
    action.run(task_vars={})
    hint = "To write a report about the job, run: ansible-playbook deeplearning.cluster.report -e training_job_name=digits"
    assert shown[-2:] == [f"digits {state} after 4 s (1970-01-01 00:00:01 to 1970-01-01 00:00:05 UTC), {SIZE}", hint]


@pytest.mark.parametrize("has_answered", [True, False])
def test_ctrl_c_also_works_while_the_host_does_not_respond(monkeypatch, shown, has_answered):
    """If the job's status is unknown, only the second Ctrl-C ends the run, because it interrupts Ansible."""
    sent = []
    monkeypatch.setattr(training_job_logs.os, "kill", lambda process, number: sent.append((process, number)))
    keys = listen(monkeypatch, True)
    action = make_action()

    def poll(*_arguments, **_options):
        calls = action._execute_module.call_count
        if has_answered and calls == 1:
            return {"jobs": [{**JOB, "progress": [], "progress_offset": 0}]}
        keys[0]()
        if sent:
            raise KeyboardInterrupt
        raise AnsibleConnectionFailure("no route to host")

    action._execute_module.side_effect = poll
    if has_answered:
        assert action.run(task_vars={})["job"]["state"] == "running"
        assert sent == []
    else:
        with pytest.raises(KeyboardInterrupt):
            action.run(task_vars={})
        assert sent == [(os.getppid(), signal.SIGINT)]
