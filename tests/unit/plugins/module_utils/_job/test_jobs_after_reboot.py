"""Tests of the files with which a host starts its jobs again: which job is kept, who can read its secrets, and when they are deleted."""

from __future__ import annotations

import fcntl
import os
import stat

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, exclusions, jobs_after_reboot

SECRET = b'{"token": "\xff"}'


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    """Return the directory with everything that a host has in memory and on its disk."""
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "disk/exclusions.json"))
    monkeypatch.setattr(jobs_after_reboot, "STARTED", str(tmp_path / "started"))
    monkeypatch.setattr(directories, "runtime_directory", lambda job, process: f"{tmp_path}/jobs/{job}-{process}")
    monkeypatch.setattr(directories, "EXPORTS", str(tmp_path / "exports"))
    monkeypatch.setattr(directories, "LOCK", str(tmp_path / "lock"))
    return tmp_path


@pytest.fixture
def run(host):
    """Return a function that starts a process of a job, whose file is in memory."""

    def start(job):
        (host / f"jobs/{job}-rank0").mkdir(parents=True)
        jobs_after_reboot.write(jobs_after_reboot.STARTED, job, SECRET)

    return start


def in_memory():
    return [jobs_after_reboot.job_of(path) for path in jobs_after_reboot.files(jobs_after_reboot.STARTED)]


def on_disk(host):
    return {path.name: path.read_bytes() for path in host.glob("disk/rejoin/*")}


def test_only_root_can_read_the_file_of_a_job(host):
    for content in (b"old", SECRET):
        jobs_after_reboot.write(str(host / "new/place"), "digits", content)
    path = host / "new/place/digits.json"
    assert path.read_bytes() == SECRET
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path)] == [0o700, 0o600]


def test_files_of_jobs_are_sorted_and_incomplete_files_do_not_count(host):
    for job in ("b", "a", "c"):
        jobs_after_reboot.write(jobs_after_reboot.STARTED, job, SECRET)
    (host / "started/d.json.4711").touch()
    assert in_memory() == ["a", "b", "c"]


def test_the_job_that_runs_is_copied_to_the_disk(host, run):
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "ended", SECRET)
    run("digits-2")
    (host / "exports/ended").mkdir(parents=True)
    assert jobs_after_reboot.keep() == "digits-2"
    assert on_disk(host) == {"digits-2.json": SECRET}
    assert in_memory() == ["digits-2", "ended"]


@pytest.mark.parametrize("found", [[], ["jobs/digits-rank0", "jobs/other-rank0"]])
def test_no_job_is_kept_unless_it_alone_runs_on_the_host(host, found):
    for job in ("digits", "other"):
        jobs_after_reboot.write(jobs_after_reboot.STARTED, job, SECRET)
    for directory in found:
        (host / directory).mkdir(parents=True)
    assert (jobs_after_reboot.keep(), on_disk(host)) == ("", {})


def test_a_job_that_cannot_be_copied_is_not_kept_and_leaves_nothing_on_the_disk(host, run):
    run("digits")
    jobs_after_reboot.write(jobs_after_reboot.directory(), "older", SECRET)
    (host / "started/digits.json").unlink()
    assert (jobs_after_reboot.keep(), on_disk(host)) == ("", {})


def test_incomplete_files_are_deleted_from_the_disk_and_directories_do_not_prevent_that(host):
    jobs_after_reboot.write(jobs_after_reboot.directory(), "digits", SECRET)
    (host / "disk/rejoin/a").mkdir()
    (host / "disk/rejoin/digits.json.4711").touch()
    (host / "disk/exclusions.json").touch()
    jobs_after_reboot.discard()
    assert sorted(os.listdir(host / "disk/rejoin")) == ["a"]
    assert (host / "disk/exclusions.json").exists()


def test_files_of_jobs_that_have_ended_are_deleted_from_the_memory(run):
    run("digits-2")
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "digits", SECRET)
    jobs_after_reboot.delete_ended()
    assert in_memory() == ["digits-2"]


def test_no_file_is_deleted_while_a_job_is_being_started(host):
    """The file of the job exists before its processes."""
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "digits", SECRET)
    with open(directories.LOCK, "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jobs_after_reboot.delete_ended_unless_starting()
        assert in_memory() == ["digits"]
    jobs_after_reboot.delete_ended_unless_starting()
    assert in_memory() == []


def test_no_job_starts_while_files_are_deleted(monkeypatch):
    def delete():
        with open(directories.LOCK, "wb") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        deleted.append(True)

    deleted = []
    monkeypatch.setattr(jobs_after_reboot, "delete_ended", delete)
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "digits", SECRET)
    jobs_after_reboot.delete_ended_unless_starting()
    assert deleted


def test_the_lock_is_a_file_of_root_and_is_used_only_if_there_is_something_to_delete(host):
    jobs_after_reboot.delete_ended_unless_starting()
    assert not (host / "lock").exists()
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "digits", SECRET)
    jobs_after_reboot.delete_ended_unless_starting()
    assert stat.S_IMODE((host / "lock").stat().st_mode) == 0o600
    (host / "lock").rename(host / "elsewhere")
    (host / "lock").symlink_to("elsewhere")
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "digits", SECRET)
    with pytest.raises(OSError, match="lock"):
        jobs_after_reboot.delete_ended_unless_starting()
