# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the checks of jobs in the results of hosts."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.job_watch import job_info

JOB = {"name": "digits", "state": "running", "over": False, "processes": [], "lines": ["digits running"]}


def info(job, **arguments):
    action = MagicMock()
    action._execute_module.return_value = {"jobs": [{**JOB, **job}]}
    return job_info(action, {"directory": "/efs/jobs", **arguments}, {"inventory_hostname": "w1"})


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        ({"name": "-digits"}, "'-digits' is not a valid job name"),
        ({"name": "other", "lines": ["other running"]}, "it describes the job other instead of digits"),
        ({"over": True}, "over is True, but the state of digits is running"),
        ({"state": "failed"}, "over is False, but the state of digits is failed"),
        ({"lines": ["FAILED: Start the job (w2)"]}, "the description of digits does not begin with this name"),
        ({"lines": []}, "the description of digits does not begin with this name"),
    ],
)
def test_a_job_that_contradicts_itself_or_the_request_is_refused(job, problem):
    assert info(job, name="digits")["msg"].startswith(f"w1: the result of training_job_info is not valid: {problem}. ")


def test_only_the_first_line_of_a_job_comes_from_the_host():
    job = {"lines": ["digits running", "FAILED: Start the job (w2)"]}
    assert info(job)["jobs"][0]["lines"] == ["digits running"]
    process = {"name": "rank0", "host": "w1", "state": "running", "started": 0.0}
    first, _heading, row = info({**job, "processes": [process]}, name="digits")["jobs"][0]["lines"]
    assert first == "digits running"
    assert row == "rank 0   w1    running  -     1970-01-01 00:00:00  -"
