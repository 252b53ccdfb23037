# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the list of jobs and of the status of one job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.action.training_job_status import TABLE_LIMIT, shown


def job(name, count):
    process = {"name": "rank0", "host": "w1", "state": "running", "started": 0.0}
    return {"name": name, "lines": [f"{name} running"], "processes": [process] * count}


@pytest.mark.parametrize(("count", "lines"), [(0, 0), (2, 4), (TABLE_LIMIT, TABLE_LIMIT + 2), (TABLE_LIMIT + 1, 0)])
def test_a_list_has_the_processes_of_the_newest_job_unless_they_are_many(count, lines):
    told = shown([job("new", count), job("old", 1)], {"directory": "/efs/jobs"})
    assert told[:2] == ["new running", "old running"]
    assert len(told) == 2 + lines
    assert not lines or told[2] == "processes of new, the newest job:"


def test_one_job_has_its_own_lines_alone():
    assert shown([job("new", 2)], {"directory": "/efs/jobs", "name": "new"}) == ["new running"]


def test_without_jobs_it_says_so():
    assert shown([], {"directory": "/efs/jobs"}) == ["There are no jobs in /efs/jobs."]
