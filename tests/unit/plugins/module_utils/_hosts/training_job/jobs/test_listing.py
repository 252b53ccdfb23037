"""Tests of the list of jobs, and of the message about a job that does not exist."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs.listing import list_jobs, no_job


def test_a_job_that_does_not_exist_is_answered_with_those_that_do(tmp_path):
    start, end = (
        f"training_job_name: there is no job 'digits-2' in {tmp_path}. ",
        " To list the jobs, run: ansible-playbook deeplearning.cluster.status",
    )
    assert no_job("digits-2", str(tmp_path)) == f"{start}There are no jobs yet.{end}"
    for number, name in enumerate(("bert-1", "bert-2", "Not a job", ".hidden")):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (number, number))
    assert no_job("digits-2", str(tmp_path)) == f"{start}The newest jobs are bert-2, bert-1.{end}"
    (tmp_path / "digits-1").mkdir()
    assert no_job("digits-2", str(tmp_path)) == f"{start}Did you mean digits-1?{end}"
    assert "There are no jobs yet." in no_job("digits-2", str(tmp_path / "nowhere"))


@pytest.mark.parametrize(("state", "over"), [("pending", False), ("running", False), ("stopped", True), ("lost", True)])
def test_the_list_says_which_jobs_have_ended(tmp_path, state, over):
    """A queue may know more than the records of a job."""
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert/job.json").write_text(json.dumps({"launcher": "torchrun", "created": 1.0}))
    ((job,), _problems) = list_jobs({"directory": str(tmp_path), "heartbeat_timeout": 60}, lambda jobs: jobs[0].update(state=state))
    assert (job["state"], job["over"]) == (state, over)
