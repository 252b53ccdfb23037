"""Tests of the properties of a job's units: which directories are the job's own, and which directories of the host it sees."""

from __future__ import annotations

import os
import pwd
import tempfile

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories

SPEC = {
    "name": "rank0",
    "job": "digits",
    "gpus": [],
    "cwd": "/c",
    "hostfile": "",
    "parameters": {"stop_timeout": 5, "heartbeat_timeout": 5, "time_limit": 0},
}
NOTHING = systemd.Visible([], [])
USER = pwd.getpwuid(os.geteuid())


@pytest.fixture
def properties(tmp_path, monkeypatch):
    """Return a function that starts a job and returns the properties of its unit."""
    for name in ("SHARED_MEMORY", "TEMPORARY"):
        monkeypatch.setattr(directories, name, str(tmp_path / name))
    for name in ("STARTED", "MUNGE_DIRECTORY"):
        monkeypatch.setattr(systemd, name, str(tmp_path / name))
    for module in (directories, systemd):
        monkeypatch.setattr(module, "runtime_directory", lambda job, process: str(tmp_path / f"jobs/{job}-{process}"))

    def start(visible=NOTHING, is_sandboxed=True):
        commands = []
        place = systemd.SupervisorAccount(USER, "/usr/bin/python3", visible, is_sandboxed)
        systemd.start(lambda command: (commands.append(command), (0, "", ""))[1], "digits", place, [SPEC])
        return [word[len("--property=") :] for word in commands[-1] if word.startswith("--property=")]

    return start


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_temporary_files_are_the_jobs_own(properties, tmp_path, is_sandboxed):
    before = os.umask(0o077)
    try:
        found = properties(is_sandboxed=is_sandboxed)
    finally:
        os.umask(before)
    own = {path: tmp_path / folder for path, folder in (("/tmp", "TEMPORARY/digits/tmp"), ("/var/tmp", "TEMPORARY/digits/var-tmp"))}
    assert {f"BindPaths={folder}:{path}" for path, folder in own.items()} < set(found)
    assert [oct(folder.stat().st_mode & 0o7777) for folder in own.values()] == ["0o1777", "0o1777"]
    assert [oct((tmp_path / name).stat().st_mode & 0o7777) for name in ("TEMPORARY", "TEMPORARY/digits")] == ["0o755", "0o710"]
    assert ("NoNewPrivileges=yes" in found) is is_sandboxed


def test_a_job_does_not_find_what_one_of_the_same_name_has_left(properties, tmp_path):
    left = tmp_path / "TEMPORARY/digits/tmp/ray"
    left.mkdir(parents=True)
    properties()
    assert not left.exists()
    left.mkdir()
    properties()
    assert left.exists(), "a process of the job is running"


def test_the_jobs_own_paths_in_tmp_stay_visible(properties):
    with tempfile.TemporaryDirectory(dir="/tmp") as code:
        found = properties(systemd.Visible(read=["/opt/x"], write=["/tmp", code, "/tmp/does-not-exist"]), is_sandboxed=False)
    assert [each for each in found if each.startswith("Bind")][3:] == [f"BindPaths={code}"]


@pytest.mark.parametrize(("status", "creates"), [(1, False), (0, False), (1, True), (0, True)])
def test_gpus_without_the_device_file_that_cuda_needs_are_an_error(tmp_path, monkeypatch, status, creates):
    device = tmp_path / "nvidia-uvm"
    monkeypatch.setattr(systemd, "UVM_DEVICE", str(device), raising=False)
    monkeypatch.setattr(systemd.shutil, "which", lambda program: f"/usr/bin/{program}")

    def run(command):
        if creates:
            device.touch()
        return status, "", "modprobe: FATAL: Module nvidia-uvm not found in directory /lib/modules/6.1\n"

    if creates:
        systemd.make_devices(run, 8)
    else:
        with pytest.raises(systemd.UnitError, match=r"nvidia-uvm.*: modprobe: FATAL: Module nvidia-uvm not found"):
            systemd.make_devices(run, 8)
    systemd.make_devices(run, 0)
