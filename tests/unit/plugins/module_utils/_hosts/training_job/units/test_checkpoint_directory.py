"""Tests of the checkpoints from which a job continues, and of jobs that cannot be continued."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files.status import read_status
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import checkpoint_directory
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.job_parameters import RefusalError


@pytest.fixture
def earlier(tmp_path):
    """Return a function that creates an earlier job and returns its paths."""

    def make(name="bug", state="failed", files=("epoch-0004.pt",), **description):
        paths = directories.Paths(str(tmp_path / name))
        folder = tmp_path / name
        for part in ("status", "checkpoints"):
            (folder / part).mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps({"launcher": "command", "created": 1.0, **description}))
        now = time.time()
        record = {"name": "rank0", "rank": 0, "ranks": [0], "part": "worker", "host": "w1", "processes": 1, "state": state}
        (folder / "status" / "rank0.json").write_text(json.dumps({**record, "started": now, "heartbeat": now, "finished": now}))
        for file in files:
            (folder / "checkpoints" / file).write_text("weights")
        return paths

    return make


def params(resume="bug", environment=None):
    return {"name": "bug-2", "resume": resume, "environment": environment or {}, "user": "deeplearning", "heartbeat_timeout": 60}


def test_a_job_has_its_own_directory_unless_it_continues_another(earlier, tmp_path):
    paths, before = directories.Paths(str(tmp_path / "bug-2")), earlier()
    assert checkpoint_directory.directory(params(None), paths) == paths.checkpoints
    assert checkpoint_directory.directory(params(), paths) == before.checkpoints
    assert checkpoint_directory.directory(params(environment={checkpoint_directory.VARIABLE: "/fsx/c"}), paths) == "/fsx/c"
    checkpoint_directory.check_resume(params(None), paths)
    checkpoint_directory.check_resume(params(), paths)


def test_a_job_that_continued_another_is_continued_where_that_began(earlier, tmp_path):
    first = earlier("first")
    second = earlier("second", files=(), checkpoint_directory=first.checkpoints, resume="first")
    assert checkpoint_directory.directory(params("second"), directories.Paths(str(tmp_path / "third"))) == first.checkpoints
    checkpoint_directory.check_resume(params("second"), directories.Paths(str(tmp_path / "third")))
    assert (read_status(second, 60)["checkpoint_directory"], read_status(second, 60)["resume"]) == (first.checkpoints, "first")
    assert (read_status(first, 60)["checkpoint_directory"], read_status(first, 60)["resume"]) == (first.checkpoints, None)


@pytest.mark.parametrize(
    ("job", "resume", "words"),
    [
        ({"files": ()}, "bug", "has left no complete checkpoint in .*/bug/checkpoints"),
        ({"files": ("epoch-0001.pt.tmp", ".epoch-0002.pt")}, "bug", "has left no complete checkpoint"),
        ({"state": "running"}, "bug", "has not ended"),
        ({}, "other", "job 'other' cannot be continued"),
        ({}, "bug-2", "cannot resume from itself"),
        ({"created": "yesterday"}, "bug", "cannot be continued"),
    ],
)
def test_what_cannot_be_continued(earlier, tmp_path, job, resume, words):
    earlier(**job)
    with pytest.raises(RefusalError, match=words):
        checkpoint_directory.check_resume(params(resume), directories.Paths(str(tmp_path / "bug-2")))


def test_a_directory_of_another_user_is_refused(earlier, tmp_path, monkeypatch):
    earlier()
    monkeypatch.setattr(checkpoint_directory.os, "access", lambda path, mode: False)
    with pytest.raises(RefusalError, match="user 'deeplearning' cannot write to"):
        checkpoint_directory.check_resume(params(), directories.Paths(str(tmp_path / "bug-2")))


def test_an_address_that_is_no_path_is_left_to_the_script(earlier, tmp_path):
    earlier(files=())
    bucket = "s3://bucket/checkpoints"
    (tmp_path / "bug" / "job.json").write_text(json.dumps({"launcher": "command", "created": 1.0, "checkpoint_directory": bucket}))
    paths = directories.Paths(str(tmp_path / "bug-2"))
    checkpoint_directory.check_resume(params(), paths)
    assert checkpoint_directory.directory(params(), paths) == bucket
