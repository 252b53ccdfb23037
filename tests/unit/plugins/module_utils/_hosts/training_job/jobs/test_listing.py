"""Tests of the list of jobs, and of the message about a job that does not exist."""

from __future__ import annotations

import json
import os
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs.listing import list_jobs, no_job
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.job_formatting import job_line


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


def test_jobs_without_their_processes_still_say_when_and_where_they_ran(tmp_path):
    now = time.time()
    for age, name in enumerate(("new", "old")):
        (tmp_path / name / "status").mkdir(parents=True)
        job = tmp_path / name / "job.json"
        job.write_text(json.dumps({"launcher": "torchrun", "created": now - 200, "script": "train.py"}))
        os.utime(job, (now - age, now - age))
        for number, part in enumerate(("worker", "worker", "standby")):
            record = {"name": f"rank{number}", "rank": number, "ranks": [number], "part": part, "host": f"w{number}", "processes": 2}
            record.update(state="succeeded", started=now - 100 + number, heartbeat=now, finished=now - 50 + number)
            (tmp_path / name / f"status/rank{number}.json").write_text(json.dumps(record))
    found, problems = list_jobs({"directory": str(tmp_path), "heartbeat_timeout": 60}, lambda _jobs: None)
    old = next(job for job in found if job["name"] == "old")
    assert problems == []
    assert old["processes"] == []
    assert (old["process_count"], old["hosts"], old["spares"]) == (2, 2, 1)
    assert (old["began"], old["ended"]) == (pytest.approx(now - 100), pytest.approx(now - 48))
    assert old["read"] >= now
    assert job_line(old).startswith("old succeeded after 52 s (")
    assert ", 2 processes on 2 hosts and 1 spare, torchrun train.py" in job_line(old)
