"""Tests of the directories and files of jobs."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import (
    directories,
)


def test_a_job_with_a_directory_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(directories, "HELD", str(tmp_path))
    (tmp_path / "digits").mkdir()
    (tmp_path / "bert").touch()
    assert [directories.is_held(job) for job in ("digits", "bert", "mnist")] == [True, False, False]


def test_where_the_files_of_a_job_are():
    paths = directories.Paths("/efs/jobs/digits")
    assert {name: getattr(paths, name).removeprefix("/efs/jobs/digits/") for name in dir(directories.Paths) if name in FILES} == FILES
    assert (paths.log("rank0"), paths.record("rank0")) == ("/efs/jobs/digits/logs/rank0.log", "/efs/jobs/digits/status/rank0.json")


FILES = {
    "code": "code",
    "description": "job.json",
    "logs": "logs",
    "status": "status",
    "verdict": "status/over",
    "checkpoints": "checkpoints",
    "tensorboard": "tensorboard",
    "progress": "progress.jsonl",
    "progress_times": "status/progress",
}


def test_where_processes_are_on_their_host(monkeypatch, tmp_path):
    assert directories.runtime_directory("digits", "rank0") == "/run/deeplearning/jobs/digits-rank0"
    assert directories.private_directories("digits") == {
        "/dev/shm": "/run/deeplearning/shm/digits",
        "/tmp": "/var/lib/deeplearning-tmp/digits/tmp",
        "/var/tmp": "/var/lib/deeplearning-tmp/digits/var-tmp",
    }
    monkeypatch.setattr(directories, "runtime_directory", lambda job, process: f"{tmp_path}/{job}-{process}")
    for name in ("digits-rank0", "digits-ps1", "digits-2-rank0", "digit-rank0", "other"):
        (tmp_path / name).mkdir()
    assert sorted(directories.runtime_directories("digits")) == [f"{tmp_path}/digits-ps1", f"{tmp_path}/digits-rank0"]
    assert directories.runtime_directories("digits-2") == [f"{tmp_path}/digits-2-rank0"]
    assert directories.runtime_directories("d*") == []


def test_the_jobs_and_exports_that_run_on_a_host(monkeypatch, tmp_path):
    monkeypatch.setattr(directories, "runtime_directory", lambda job, process: f"{tmp_path}/jobs/{job}-{process}")
    monkeypatch.setattr(directories, "EXPORTS", str(tmp_path / "exports"))
    assert directories.running_jobs() == directories.running_exports() == []
    for name in ("jobs/digits-2-rank0", "jobs/digits-2-rank1", "jobs/bert-rank0", "exports/digits"):
        (tmp_path / name).mkdir(parents=True)
    assert (directories.running_jobs(), directories.running_exports()) == (["bert", "digits-2"], ["digits"])


def test_all_that_is_in_a_tree_is_deleted_and_nothing_outside(tmp_path):
    (tmp_path / "tree/deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    (tmp_path / "-rf").touch()
    many = [tmp_path / f"file{number}" for number in range(1001)]
    for path in many:
        path.touch()
    directories.delete([str(tmp_path / "tree"), str(tmp_path / "missing"), str(tmp_path / "-rf"), *map(str, many)])
    assert os.listdir(tmp_path) == ["outside"]


def test_commands_that_delete_have_the_length_that_the_kernel_takes(monkeypatch):
    commands = []
    done = SimpleNamespace(returncode=0, stderr="")
    monkeypatch.setattr(directories.subprocess, "run", lambda command, **_: commands.append(command) or done)
    paths = [f"/run/{number}" for number in range(1000)]
    directories.delete(paths)
    assert [command[:4] for command in commands] == [["rm", "-rf", "--one-file-system", "--"]] * 3
    assert [len(command) - 4 for command in commands] == [400, 400, 200]
    assert [path for command in commands for path in command[4:]] == paths
    directories.delete([])
    assert len(commands) == 3


def test_what_cannot_be_deleted_is_told(capfd):
    with pytest.raises(OSError, match=r"^rm: cannot remove '/proc/version': [^\n]*$"):
        directories.delete(["/proc/version"])
    assert capfd.readouterr() == ("", "")


def test_a_long_refusal_is_cut(monkeypatch):
    failed = SimpleNamespace(returncode=1, stderr=f" {'x' * 2000}\n")
    asked = {}
    monkeypatch.setattr(directories.subprocess, "run", lambda _command, **options: asked.update(options) or failed)
    with pytest.raises(OSError, match="x") as error:
        directories.delete(["/run/x"])
    assert str(error.value) == "x" * 1000
    assert (asked["stdin"], asked["errors"], asked["check"]) == (subprocess.DEVNULL, "replace", False)


def test_the_state_of_an_export_is_beside_the_records():
    assert directories.Paths("/efs/jobs/digits").export == "/efs/jobs/digits/status/export"


def test_each_attempt_has_its_own_logs_and_records_and_the_rest_is_the_jobs():
    second = directories.Paths("/efs/jobs/digits").of_attempt(2)
    assert second.log("rank0") == "/efs/jobs/digits/logs/attempt2/rank0.log"
    assert second.record("rank0") == "/efs/jobs/digits/status/attempt2/rank0.json"
    assert (second.verdict, second.following) == ("/efs/jobs/digits/status/attempt2/over", "/efs/jobs/digits/status/attempt2/next")
    for name in ("export", "progress_times", "progress", "checkpoints", "code", "description"):
        assert getattr(second, name) == getattr(second.of_attempt(1), name)
