"""Tests of the checks of jobs in the results of hosts."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs.listing import no_job
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import suggested_commands
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.job_watch import job_info

JOB = {"name": "digits", "state": "running", "over": False, "processes": []}


def info(job, **arguments):
    action = MagicMock()
    action._execute_module.return_value = {"jobs": [{**JOB, **job}]}
    return job_info(action, {"directory": "/efs/jobs", **arguments}, {"inventory_hostname": "w1"})


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        ({"name": "-digits"}, "'-digits' is not a valid job name"),
        ({"name": "other"}, "it describes the job other instead of digits"),
        ({"over": True}, "over is True, but the state of digits is running"),
        ({"state": "failed"}, "over is False, but the state of digits is failed"),
    ],
)
def test_a_job_that_contradicts_itself_or_the_request_is_refused(job, problem):
    assert info(job, name="digits")["msg"].startswith(f"w1: the result of training_job_info is not valid: {problem}. ")


@pytest.mark.parametrize("missing_ok", [True, False])
def test_a_result_without_the_requested_job_is_refused_unless_the_job_may_be_missing(missing_ok):
    action = MagicMock()
    action._execute_module.return_value = {"jobs": []}
    found = job_info(action, {"directory": "/efs/jobs", "name": "digits", "missing_ok": missing_ok}, {"inventory_hostname": "w1"})
    assert found.get("failed", False) is not missing_ok


def test_the_command_in_the_message_of_a_host_is_that_of_this_run(monkeypatch):
    monkeypatch.setattr(suggested_commands.context, "CLIARGS", {"inventory": ("nodes.yml",), "extra_vars": ()})
    action = MagicMock()
    action._execute_module.return_value = {"failed": True, "msg": no_job("digits", "/efs/jobs")}
    told = job_info(action, {}, {})["msg"]
    assert told.endswith(" To list the jobs, run: ansible-playbook -i nodes.yml deeplearning.cluster.status")
    action._execute_module.return_value = {"failed": True}
    assert job_info(action, {}, {}) == {"failed": True, "msg": "training_job_info failed"}
