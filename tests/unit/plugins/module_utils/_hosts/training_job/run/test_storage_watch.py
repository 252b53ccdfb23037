"""Tests of the watch over the directories that a job writes to, with real file systems in a mount namespace of their own."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import storage_watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run.storage_watch import StorageWatch
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.storage_problems import StorageProblem

from ..conftest import with_tmpfs

# Runs code between the start of a watch and the reading of its problems.
PROGRAM = """
import json, os, subprocess, sys, time
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import storage_watch
storage_watch.INTERVAL = 0.01
small, code, before = sys.argv[1:]
exec(before)
watch = storage_watch.StorageWatch()
watch.start([small])
exec(code)
print(json.dumps([each._asdict() for each in watch.problems()]))
"""
FILL = "open(small + '/full', 'wb', buffering=0).write(bytes(1 << 20))"


@pytest.fixture
def find(tmp_path):
    """Return a function that mounts a tmpfs with these options and returns the problems that a watch finds there after the `code`."""
    small = tmp_path / "small"
    small.mkdir()

    def find_it(code, options="size=512k", before=""):
        command = [*with_tmpfs(small, options), sys.executable, "-c", PROGRAM, str(small), code, before]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert result.returncode == 0, result.stderr
        return [StorageProblem(**each) for each in json.loads(result.stdout)]

    return find_it


def test_a_full_file_system_is_a_problem(find, tmp_path):
    assert find("pass") == []
    assert find(FILL) == [StorageProblem(str(tmp_path / "small"), "space", 0, 512 << 10)]


def test_missing_inodes_are_a_problem(find):
    files = "[open(f'{small}/{number}', 'w').close() for number in range(9)]"
    assert [each.problem for each in find(files, "size=512k,nr_inodes=10")] == ["inodes"]


@pytest.mark.parametrize(("before", "found"), [("", ["read_only"]), ("{}", [])])
def test_a_file_system_that_becomes_read_only_is_a_problem(find, before, found):
    remount = "subprocess.run(['mount', '-o', 'remount,ro', small], check=True)"
    assert [each.problem for each in find(remount, before=before and remount)] == found


@pytest.mark.parametrize(("recent", "found"), [(60, ["space"]), (0, [])])
def test_a_full_file_system_counts_for_some_seconds_after_it_has_been_freed(find, recent, found):
    """A process can delete its incomplete files, or the kernel can delete them with the process."""
    freed = f"{FILL}; time.sleep(0.5); os.unlink(small + '/full'); storage_watch.RECENT = {recent}"
    assert [each.problem for each in find(freed)] == found


@pytest.mark.parametrize(("number", "found"), [(errno.EDQUOT, ["quota"]), (errno.ENOSPC, ["space"]), (errno.EACCES, []), (errno.EIO, [])])
def test_the_error_of_a_small_file_says_what_is_wrong(tmp_path, monkeypatch, number, found):
    """Network file systems report a used-up quota when a file is synchronized, and the free space does not show it."""

    def fail(_file):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    watch = StorageWatch()
    watch.start([str(tmp_path), str(tmp_path / "missing")])
    assert [(each.path, each.problem) for each in watch.problems()] == [(str(tmp_path), kind) for kind in found]
    assert os.listdir(tmp_path) == []


def test_only_directories_count(tmp_path, monkeypatch):
    """The environment contains paths of programs, such as SHELL, and the sandbox mounts their directories read-only."""
    program = tmp_path / "bash"
    program.touch()
    monkeypatch.setattr(storage_watch, "free_problem", lambda path: StorageProblem(path, "read_only"))
    watch = StorageWatch()
    watch.start([str(program)])
    assert watch.problems() == []


def test_storage_that_hangs_does_not_delay_a_failure(tmp_path, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(storage_watch, "PATIENCE", 0.1)
    monkeypatch.setattr(os, "access", lambda *_: released.wait(60))
    watch, began = StorageWatch(), time.monotonic()
    watch.start([str(tmp_path)])
    assert watch.problems() == []
    assert time.monotonic() - began < 30
    released.set()


def test_the_directories_of_a_job_are_those_in_its_environment(tmp_path):
    environment = {"HOME": "/home/me", "HF_HOME": "/scratch/hf", "PATH": "/bin:/usr/bin", "OMP_NUM_THREADS": "1", "TMPDIR": "/nvme/tmp"}
    found = storage_watch.directories(["/checkpoints", ""], environment)
    assert found[:5] == ["/checkpoints", "/tmp", "/var/tmp", "/dev/shm", "/home/me"]
    assert {"/home/me/.cache", "/scratch/hf", "/nvme/tmp"} < set(found)
    assert "1" not in found
    assert len(storage_watch.directories([], {str(number): f"/{number}" for number in range(99)})) == storage_watch.DIRECTORIES


@pytest.mark.parametrize(("kind", "is_shared"), [("nfs4", True), ("lustre", True), ("ext4", False)])
def test_shared_storage_is_recognized(tmp_path, kind, is_shared, monkeypatch):
    device = os.stat(tmp_path).st_dev
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:1 / /proc rw shared:1 - proc proc rw\n90 22 {os.major(device)}:{os.minor(device)} / /x rw - {kind} x rw\n")
    assert storage_watch.file_system(str(tmp_path), str(table)) == kind
    monkeypatch.setattr(storage_watch, "file_system", lambda _path: kind)
    assert storage_watch._problem(str(tmp_path), "space").shared is is_shared
