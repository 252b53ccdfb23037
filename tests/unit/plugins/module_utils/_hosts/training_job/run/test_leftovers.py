"""Tests of what is deleted after attempts and jobs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import leftovers
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories
from local_cloud.testing import wait_until


@pytest.fixture
def private(tmp_path, monkeypatch):
    """Return a function that writes files to the private directories of a job, and a function that lists them."""
    monkeypatch.setattr(directories, "SHARED_MEMORY", str(tmp_path / "shm"))
    monkeypatch.setattr(directories, "TEMPORARY", str(tmp_path / "temporary"))
    monkeypatch.setattr(directories, "runtime_directory", lambda job, process: str(tmp_path / f"jobs/{job}-{process}"))

    def fill(job):
        for place in map(Path, directories.private_directories(job).values()):
            (place / "folder").mkdir(parents=True, exist_ok=True)
            (place / "folder/file").touch()
            (place / "link").symlink_to(tmp_path / "shm")
            (place / "psm_1234").touch()

    def names(job):
        return [sorted(os.listdir(place)) for place in directories.private_directories(job).values()]

    return fill, names


def test_the_last_process_of_a_job_empties_its_private_directories(private, tmp_path):
    fill, names = private
    for job in ("digits", "digits-2"):
        fill(job)
    units_of = [tmp_path / "jobs" / name for name in ("digits-rank0", "digits-rank1", "digits-2-rank0")]
    for directory in units_of:
        directory.mkdir(parents=True)
    full = [["folder", "link", "psm_1234"]] * 3
    leftovers.clean_up_last({"job": "digits", "environment": {}}, str(units_of[1] / "spec.json"))
    assert names("digits") == full, "rank 0 may still use them"
    leftovers.clean_up_last({"job": "digits", "environment": {}}, str(units_of[0] / "spec.json"))
    assert names("digits") == [[], [], []]
    assert names("digits-2") == full


def test_a_file_that_cannot_be_deleted_keeps_no_others(private, tmp_path, monkeypatch):
    """A directory at which the job's code is mounted cannot be deleted until its unit has ended."""
    fill, names = private
    fill("digits")
    (tmp_path / "jobs/digits-rank0").mkdir(parents=True)
    delete = leftovers.delete

    def fail_in_tmp(paths):
        delete(paths)
        if paths[0].startswith(directories.private_directories("digits")["/tmp"]):
            raise OSError("Device or resource busy")

    monkeypatch.setattr(leftovers, "delete", fail_in_tmp)
    with pytest.raises(OSError, match="busy"):
        leftovers.clean_up_last({"job": "digits", "environment": {}}, str(tmp_path / "jobs/digits-rank0/spec.json"))
    assert names("digits") == [[], [], []]


def test_an_attempt_does_not_find_what_the_one_before_has_left(private, tmp_path):
    """Files of the next attempt may already exist, also with an old modification time, for example from an archive."""
    fill, names = private
    fill("digits")
    lock = tmp_path / ".cache/torch_extensions/x/lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    place = Path(directories.private_directories("digits")["/tmp"])
    ready = time.time() + 0.05
    wait_until(lambda: time.time() > ready + 0.05)  # more than the resolution of the times of files
    (place / "unpacked").touch()
    os.utime(place / "unpacked", (0, 0))
    leftovers.clean_up({"job": "digits", "environment": {"HOME": str(tmp_path)}}, ready)
    assert names("digits") == [[], ["unpacked"], []]
    assert not lock.exists()
