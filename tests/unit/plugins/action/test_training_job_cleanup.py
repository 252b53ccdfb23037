"""Tests of the names of jobs that users see before they confirm a deletion."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.action.training_job_cleanup import ActionModule

KEPT = {"name": "digits-1", "reason": "running"}
ANSWER = {"changed": False, "jobs": [{"name": "digits-0"}], "kept": [KEPT], "running": ["digits-1"], "pythons": [], "problems": []}


@pytest.fixture
def run():
    """Return a function that runs the action with a result of the module."""

    def run_it(**answer):
        action = ActionModule(MagicMock(args={}, async_val=0), *(MagicMock() for _number in range(5)))
        action._execute_module = MagicMock(return_value={**ANSWER, **answer})
        return action.run(task_vars={"inventory_hostname": "w1"})

    return run_it


def test_the_jobs_to_keep_are_returned_with_the_reason(run):
    assert run() == ANSWER


@pytest.mark.parametrize(
    "answer", [{"jobs": [{"name": "x\nEVIL"}]}, {"kept": [KEPT, {"name": "../x", "reason": "running"}]}, {"running": ["x, y"]}]
)
def test_names_that_no_job_can_have_are_refused(run, answer):
    result = run(**answer)
    assert result["failed"]
    assert "is not a valid job name" in result["msg"]


def test_a_failed_result_has_no_jobs(run):
    assert run(failed=True, msg="no", jobs=None, kept=None, running=None, problems=None)["msg"] == "no"
