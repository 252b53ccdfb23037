"""How waiting for a job ends when its host cannot be asked."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.deeplearning.cluster.plugins.action import training_job_wait


def test_a_host_out_of_reach_ends_the_waiting_and_not_the_job(monkeypatch):
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr(training_job_wait.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(training_job_wait.time, "sleep", lambda seconds: None)
    task = MagicMock(args={"name": "digits", "directory": "/efs/jobs"}, check_mode=False, async_val=0)
    action = training_job_wait.ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
    action._execute_module = MagicMock(side_effect=AnsibleConnectionFailure("no route"))
    with pytest.raises(AnsibleActionFail, match=r"out of reach for 60 s: no route.*Nothing was stopped") as failure:
        action.run(task_vars={})
    assert failure.value.result["out_of_reach"] is True
    assert action._execute_module.call_count > 2
