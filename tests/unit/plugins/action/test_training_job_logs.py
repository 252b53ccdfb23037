# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of Ctrl-C while the action follows logs. tests/hosts/test_job_logs.py tests Ctrl-C on real hosts."""

from __future__ import annotations

import contextlib
from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.action import training_job_logs
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_watch

PROCESS = {"name": "rank0", "host": "w1", "part": "worker", "state": "running", "started": 0.0, "heartbeat": 5.0}
JOB = {"name": "digits", "state": "running", "directory": "/efs/jobs/digits", "process_count": 1, "processes": [PROCESS], "code": {}}


@pytest.fixture
def shown(monkeypatch):
    lines = []
    for module in (job_watch, training_job_logs):
        monkeypatch.setattr(module.display, "display", lambda line, **_: lines.append(line))
    monkeypatch.setattr(job_watch.time, "sleep", lambda seconds: None)
    return lines


@pytest.mark.parametrize(
    ("has_terminal", "hint"),
    [(True, "press Ctrl-C to end this run; the job continues"), (False, "the job continues if Ansible is interrupted")],
)
def test_ctrl_c_ends_the_run_without_an_error_and_the_job_continues(monkeypatch, shown, has_terminal, hint):
    keys = []

    @contextlib.contextmanager
    def interrupts(notice):
        keys.append(notice)
        yield has_terminal

    def poll(*_arguments, **_options):
        state = "running"
        if action._execute_module.call_count == 2:
            for press in keys * 2:  # the user may press it twice
                press()
        if action._execute_module.call_count == 3:
            state = "succeeded"
        return {"jobs": [{**JOB, "state": state, "lines": [f"digits {state}"], "progress": [], "progress_offset": 0}]}

    monkeypatch.setattr(training_job_logs, "interrupts", interrupts)
    task = MagicMock(args={"name": "digits", "directory": "/efs/jobs", "follow": True}, check_mode=False, async_val=0)
    action = training_job_logs.ActionModule(task, *[MagicMock()] * 5)
    action._execute_module = MagicMock(side_effect=poll)
    result = action.run(task_vars={})
    assert result["job"]["state"] == "running"
    assert not result.get("failed")
    assert shown == [
        f"digits: 1 processes, logs in /efs/jobs/digits/logs; {hint}",
        "digits: the job continues, and this run ends within 10 s",
        "digits running",
    ]
