"""Tests that check which jobs are deleted, and what an interrupted deletion leaves behind."""

from __future__ import annotations

import json
import os
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs import cleanup
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories

DAY = 86400.0


@pytest.fixture
def job(tmp_path):
    """Return a function that creates a job whose last heartbeat was the given number of days ago."""

    def make(name, days, state="succeeded", **description):
        moment, folder = time.time() - days * DAY, tmp_path / name
        for part in ("status", "checkpoints", "logs"):
            (folder / part).mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps({"launcher": "command", "created": moment - 100, **description}))
        record = {"name": "rank0", "rank": 0, "ranks": [0], "part": "worker", "host": "w1", "processes": 1, "state": state}
        record |= {"started": moment - 50, "heartbeat": moment, "finished": moment}
        path = folder / "status" / "rank0.json"
        path.write_text(json.dumps(record))
        os.utime(path, (moment, moment))
        return folder

    return make


def run(tmp_path, check_mode=False, **params):
    defaults = {
        "directory": str(tmp_path),
        "name": None,
        "days": 30,
        "keep": 0,
        "running": [],
        "heartbeat_timeout": 60,
        "timeout": 60,
        "pending": False,
    }
    return cleanup.clean_up({**defaults, **params}, check_mode)


def kept(result):
    return [each["name"] for each in result["kept"]]


def names(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir())


def test_jobs_that_ended_long_ago_go(job, tmp_path):
    for name, days in (("oldest", 90), ("old", 31), ("young", 29)):
        job(name, days, python=f"/efs/environments/{name}/bin/python")
    planned = run(tmp_path, check_mode=True)
    assert names(tmp_path) == ["old", "oldest", "young"]
    done = run(tmp_path)
    assert [each["name"] for each in done["jobs"]] == ["old", "oldest"]
    assert planned == done
    assert (kept(done), done["pythons"], done["changed"]) == (["young"], ["/efs/environments/young/bin/python"], True)
    assert names(tmp_path) == ["young"]
    assert not run(tmp_path)["changed"]


def test_the_reason_why_a_job_is_kept_is_returned(job, tmp_path):
    job("newest", 40)
    job("young", 50)
    for record in (tmp_path / "young/status").glob("*.json"):
        os.utime(record)
    job("used", 60)
    job("user", 55, checkpoint_directory=str(tmp_path / "used/checkpoints"))
    job("runs", 70)
    found = run(tmp_path, check_mode=True, keep=1, running=["runs"])
    reasons = {each["name"]: each["reason"] for each in found["kept"]}
    assert reasons == {
        "newest": "among the 1 newest (cleanup_keep)",
        "young": "ended less than 30 days ago (cleanup_days)",
        "runs": "running",
    }
    assert {each["reason"] for each in run(tmp_path, check_mode=True, name="newest")["kept"]} == {"not named"}
    found = run(tmp_path, check_mode=True, keep=1, days=0, running=["runs", "user"])
    assert {"name": "used", "reason": "contains the checkpoints of user"} in found["kept"]


def test_a_job_that_waits_in_a_queue_stays(job, tmp_path):
    folder = job("waiting", 90)
    (folder / "status/rank0.json").unlink()
    (folder / "status/queue").write_text('{"queue": "slurm", "id": "7", "submitted": 5.0}')
    assert kept(run(tmp_path)) == ["waiting"]


def test_the_newest_stay_whatever_their_age(job, tmp_path):
    for days in (40, 50, 60):
        job(f"job-{days}", days)
    assert kept(run(tmp_path, keep=2)) == ["job-40", "job-50"]
    assert names(tmp_path) == ["job-40", "job-50"]


def test_running_jobs_and_what_is_no_job_stay(job, tmp_path):
    job("running", 0, state="running")
    job("lost", 40, state="running")
    job("damaged", 40, created="yesterday")
    (tmp_path / "notes").mkdir()
    (tmp_path / "README").touch()
    job("real", 40)
    os.symlink(job("target", 0), tmp_path / "link")
    done = run(tmp_path, days=1)
    assert {each["name"]: each["state"] for each in done["jobs"]} == {"lost": "lost", "real": "succeeded"}
    assert names(tmp_path) == ["README", "damaged", "link", "notes", "running", "target"]
    assert ["is kept" in problem for problem in done["problems"]] == [True, True]


def test_a_job_with_the_checkpoints_of_a_kept_job_stays(job, tmp_path):
    first = job("first", 90)
    job("second", 60, checkpoint_directory=str(first / "checkpoints"), resume="first")
    third = job("third", 50)
    fourth = job("fourth", 45, checkpoint_directory=str(third / "checkpoints"))
    job("fifth", 1, checkpoint_directory=str(fourth / "other"))
    job("bucket", 1, checkpoint_directory="s3://bucket/first")
    job("elsewhere", 1, checkpoint_directory="/fsx/first")
    run(tmp_path)
    assert names(tmp_path) == ["bucket", "elsewhere", "fifth", "fourth", "third"]


def test_one_job_goes_whatever_its_age(job, tmp_path):
    job("one", 0)
    job("two", 90)
    assert [each["name"] for each in run(tmp_path, name="one", keep=10)["jobs"]] == ["one"]
    assert names(tmp_path) == ["two"]


def test_a_job_with_active_units_stays_whatever_its_files_say(job, tmp_path):
    job("forged", 90)
    job("old", 90)
    assert [each["name"] for each in run(tmp_path, running=["forged", "unknown"])["jobs"]] == ["old"]
    with pytest.raises(cleanup.CleanupError, match=r"job 'forged' is running\. Wait until it ends"):
        run(tmp_path, name="forged", running=["forged"])
    assert names(tmp_path) == ["forged"]


def test_a_heartbeat_in_any_attempt_counts(job, tmp_path):
    """The job has created a verdict, and directories for attempts that never took place."""
    hidden = job("hidden", 90)
    (hidden / "status/attempt1024").mkdir()
    attempt = hidden / "status/attempt3"
    attempt.mkdir()
    (attempt / "rank0.json").write_text("{}")
    os.utime(attempt / "rank0.json", (time.time() + DAY,) * 2)
    assert cleanup.read_job("hidden", directories.Paths(str(hidden)), 60).last <= time.time()
    assert run(tmp_path)["jobs"] == []
    assert names(tmp_path) == ["hidden"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "job 'none' does not exist in"),
        ("running", "job 'running' is running. Wait until it ends, or stop it with deeplearning.cluster.stop -e training_job_name=running"),
        ("base", "the directory of job 'base' contains the checkpoints of continues. Delete continues first."),
    ],
)
def test_one_job_that_cannot_go(job, tmp_path, name, words):
    job("running", 0, state="running")
    job("continues", 1, checkpoint_directory=str(job("base", 90) / "checkpoints"))
    with pytest.raises(cleanup.CleanupError, match=words):
        run(tmp_path, name=name)
    assert names(tmp_path) == ["base", "continues", "running"]


@pytest.fixture
def prepared(job):
    """Return a function that creates a job without processes."""

    def make(name, minutes, **description):
        folder = job(name, 0, **{"created": time.time() - 60 * minutes, **description})
        (folder / "status/rank0.json").unlink()

    return make


def test_a_job_that_no_run_has_started_can_go_when_it_is_too_late_to_start_it(job, prepared, tmp_path):
    prepared("late", 11)
    prepared("new", 9)
    job("lost", 1, state="running")
    for name, why in (("new", r"is pending\. It was prepared less than 10 minutes ago.*"), ("lost", r"is lost\. Its hosts .*")):
        with pytest.raises(cleanup.CleanupError, match=rf"^job '{name}' {why}, add -e cleanup_days=0$"):
            run(tmp_path, name=name)
    assert run(tmp_path, name="late")["jobs"][0]["state"] == "pending"
    for name in ("new", "lost"):
        run(tmp_path, name=name, days=0)
    assert names(tmp_path) == []


def test_a_refused_job_goes_only_if_nothing_has_started_it(job, prepared, tmp_path):
    prepared("refused", 0)
    prepared("printed", 0, printed=True)
    prepared("busy", 0)
    prepared("queued", 0)
    (tmp_path / "queued/status/queue").write_text('{"queue": "slurm", "id": "7", "submitted": 5.0}')
    prepared("damaged", 0)
    (tmp_path / "damaged/status/rank0.json").write_text("")
    job("ended", 90)
    (tmp_path / ".deleted-other").mkdir()
    every = ("refused", "printed", "busy", "queued", "damaged", "ended", "none", f"../{tmp_path.name}/busy")
    for check_mode in (True, False):
        done = [run(tmp_path, check_mode, name=name, pending=True, running=["busy"]) for name in every]
        assert [each["changed"] for each in done] == [True, *[False] * 7]
        assert ("refused" in names(tmp_path)) is check_mode
    assert done[0]["jobs"][0]["name"] == "refused"
    assert names(tmp_path) == [".deleted-other", "busy", "damaged", "ended", "printed", "queued"]


def test_what_an_interrupted_run_has_left_goes_with_the_next(job, tmp_path, monkeypatch):
    def interrupted(paths):
        raise OSError("the host went away")

    job("again", 90)
    with monkeypatch.context() as patch:
        patch.setattr(cleanup.directories, "delete", interrupted)
        with pytest.raises(cleanup.users.FailedWorkError if os.geteuid() else OSError):
            run(tmp_path)
    assert names(tmp_path) == [".deleted-again"]
    job("again", 80)
    assert run(tmp_path, check_mode=True)["changed"]
    run(tmp_path)
    assert names(tmp_path) == []
