"""Tests of the shell command that replaces the module if a job does not exist."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.action import training_job_info

FOUND = {"jobs": ["from the module"]}


@pytest.mark.parametrize(
    ("arguments", "status", "command"),
    [
        ({"directory": "/efs/my jobs", "name": "new", "missing_ok": "true"}, 1, "test -e '/efs/my jobs/new'"),
        ({"directory": "/efs/jobs", "name": "old", "missing_ok": True}, 0, "test -e /efs/jobs/old"),
        ({"directory": "/efs/jobs", "name": "unreadable", "missing_ok": True}, 255, "test -e /efs/jobs/unreadable"),
        ({"directory": "~/jobs", "name": "new", "missing_ok": True}, 1, None),
        ({"directory": "$HOME/jobs", "name": "new", "missing_ok": True}, 1, None),
        ({"directory": "/$HOME/jobs", "name": "new", "missing_ok": True}, 1, None),
        ({"directory": "/efs/jobs", "name": "new"}, 1, None),
        ({"directory": "/efs/jobs"}, 1, None),
    ],
)
def test_the_module_runs_unless_the_job_may_be_missing_and_has_no_directory(monkeypatch, arguments, status, command):
    monkeypatch.setattr(training_job_info, "job_info", lambda *_arguments: FOUND)
    action = training_job_info.ActionModule(MagicMock(args=arguments), *[MagicMock()] * 5)
    shell = MagicMock(return_value={"rc": status})
    monkeypatch.setattr(action, "_low_level_execute_command", shell)
    found = action.run_module({})
    assert [call.args for call in shell.call_args_list] == ([(command,)] if command else [])
    assert found == ({"changed": False, "jobs": [], "problems": []} if command and status == 1 else FOUND)
