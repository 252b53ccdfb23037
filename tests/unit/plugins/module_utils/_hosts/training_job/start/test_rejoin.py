"""Tests of the start of a host's jobs after a reboot."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import time
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import transient_units
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import rejoin
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import launch, systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions, jobs_after_reboot

USER = pwd.getpwuid(os.geteuid())
VISIBLE = systemd.Visible(["/opt/pytorch"], ["/efs"])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "health/exclusions.json"))
    monkeypatch.setattr(jobs_after_reboot, "STARTED", str(tmp_path / "started"))
    monkeypatch.setattr(jobs_after_reboot, "runtime_directories", lambda job: [] if job == "ended" else [job])
    monkeypatch.setattr(transient_units, "exclusive", contextlib.nullcontext)
    monkeypatch.setattr(systemd, "make_devices", lambda _run, _gpus: None)
    monkeypatch.setattr(systemd, "refuse_nfs", lambda _run, _user: "nftables is missing")
    return tmp_path


@pytest.fixture
def started(monkeypatch):
    """Return the jobs that were started, with their accounts, specs and actions."""
    found = []
    monkeypatch.setattr(systemd, "active_units", lambda _run, job: [job] if job == "runs" else [])
    monkeypatch.setattr(systemd, "start", lambda _run, *arguments: found.append(arguments))
    return found


def keep(job, place, specs, began=None):
    launch.save(job, place, specs, time.time() if began is None else began)
    reboot(job)


def reboot(job):
    os.makedirs(jobs_after_reboot.directory(), exist_ok=True)
    os.replace(os.path.join(jobs_after_reboot.STARTED, f"{job}.json"), os.path.join(jobs_after_reboot.directory(), f"{job}.json"))


def test_a_job_is_not_started_on_gpus_that_another_job_has_taken(folder, started, monkeypatch, capsys):
    other = {"job": "other", "gpus": [0], "cwd": "/efs/other"}
    monkeypatch.setattr(systemd, "other_jobs", lambda _job: [other])
    specs = [{"name": "rank0", "directory": str(folder), "gpus": [0, 1], "cwd": "/efs/digits", "host": "worker1"}]
    keep("digits", systemd.SupervisorAccount(USER, "/usr/bin/python3", VISIBLE, False), specs)
    rejoin.main([])
    assert started == []
    assert "job digits is not started again on this host: job other uses GPU 0 of worker1" in capsys.readouterr().err
    assert jobs_after_reboot.files(jobs_after_reboot.STARTED) == []
    other["gpus"] = [2]
    keep("digits", systemd.SupervisorAccount(USER, "/usr/bin/python3", VISIBLE, False), specs)
    rejoin.main([])
    assert len(started) == 1


def test_a_job_is_started_as_before_the_reboot(folder, started, capsys):
    specs = [{"name": "rank0", "directory": str(folder), "gpus": [0], "cwd": "/efs/digits"}]
    place = systemd.SupervisorAccount(USER, "/usr/bin/python3", VISIBLE, True)
    for job in ("digits", "runs"):
        keep(job, place, specs)
    assert rejoin.main([]) == 0
    assert started == [("digits", place, [{**specs[0], "rejoins": True, "elapsed": 0}], "rejoin")]
    (saved,) = jobs_after_reboot.files(jobs_after_reboot.STARTED)
    assert [os.stat(path).st_mode & 0o777 for path in (jobs_after_reboot.STARTED, saved)] == [0o700, 0o600]
    with open(saved, encoding="utf-8") as file:
        assert json.load(file)["specs"] == specs, "for the next reboot"
    assert "nftables is missing" in capsys.readouterr().err
    assert jobs_after_reboot.files(jobs_after_reboot.directory()) == [], "the secrets do not stay on the disk"
    assert rejoin.main([]) == 0
    assert len(started) == 1


def test_the_time_limit_is_the_original_one_after_two_reboots(folder, started, monkeypatch):
    specs = [{"name": "rank0", "directory": str(folder), "gpus": [], "cwd": "/efs/digits"}]
    began = time.time() - 100
    keep("digits", systemd.SupervisorAccount(USER, "/usr/bin/python3", VISIBLE, False), specs, began)
    rejoin.main([])
    monkeypatch.setattr(rejoin.time, "time", lambda: began + 400)
    reboot("digits")
    rejoin.main([])
    assert [job[2][0]["elapsed"] for job in started] == [100, 400]


def test_an_old_or_damaged_file_starts_nothing_and_prevents_nothing(folder, started, capsys):
    specs = [{"name": "rank0", "directory": str(folder), "gpus": [], "cwd": "/efs/digits"}]
    place = systemd.SupervisorAccount(USER, "/usr/bin/python3", VISIBLE, False)
    for job in ("digits", "late", "lost"):
        keep(job, place, [{**specs[0], "directory": "/nowhere"}] if job == "lost" else specs)
    jobs_after_reboot.write(jobs_after_reboot.directory(), "damaged", b"{")
    (folder / "health/rejoin/digits.json.new").write_text("secret")
    jobs_after_reboot.write(jobs_after_reboot.directory(), "alien", json.dumps({"specs": specs}).encode())
    for job, age in (("late", 601), ("lost", 599)):
        os.utime(os.path.join(jobs_after_reboot.directory(), f"{job}.json"), (time.time() - age, time.time() - age))
    rejoin.main([])
    assert [job for job, *_rest in started] == ["digits"]
    said = capsys.readouterr().err
    assert "job damaged is not started again on this host" in said
    assert "job lost is not started again on this host: /nowhere does not exist" in said, "the other hosts no longer wait"
    assert os.listdir(jobs_after_reboot.directory()) == [], "the secrets do not stay on the disk"
    rejoin.main([])
    assert len(started) == 1


@pytest.mark.parametrize(("reboot", "restarts"), [(True, 3), (True, 0), (False, 3)])
def test_only_jobs_whose_hosts_may_reboot_are_saved(started, monkeypatch, reboot, restarts):
    monkeypatch.setattr(launch, "check_place", lambda _name, _specs: None)
    monkeypatch.setattr(launch, "open_sync_directory", lambda *_arguments: None)
    monkeypatch.setattr(launch.users, "as_user", lambda *_arguments: None)
    spec = {"name": "rank0", "environment": {}}
    params = {"name": "digits", "hosts": [], "sandbox": False, "metrics_directory": "", "reboot": reboot, "restarts": restarts}
    monkeypatch.setattr(launch, "visible_paths", lambda *_arguments: VISIBLE)
    monkeypatch.setattr(jobs_after_reboot, "runtime_directories", lambda _job: [])
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "digits", b"of an earlier job with the same name")
    launch.start_processes(None, lambda _warning: None, params, SimpleNamespace(), USER, [spec], 0)
    saved = [jobs_after_reboot.job_of(path) for path in jobs_after_reboot.files(jobs_after_reboot.STARTED)]
    assert saved == (["digits"] if reboot and restarts else [])
    assert len(started) == 1


def test_an_unreadable_file_prevents_no_other_job(folder, started, capsys, monkeypatch):
    specs = [{"name": "rank0", "directory": str(folder), "gpus": [], "cwd": "/efs/digits"}]
    keep("digits", systemd.SupervisorAccount(USER, "/usr/bin/python3", VISIBLE, False), specs)
    os.symlink("/nowhere", os.path.join(jobs_after_reboot.directory(), "broken.json"))
    assert rejoin.main([]) == 0
    assert [job for job, *_rest in started] == ["digits"]
    assert "job broken is not started again on this host: " in capsys.readouterr().err
    assert os.listdir(jobs_after_reboot.directory()) == [], "the secrets do not stay on the disk"

    keep("digits", systemd.SupervisorAccount(USER, "/usr/bin/python3", VISIBLE, False), specs)
    monkeypatch.setattr(jobs_after_reboot, "job_of", lambda _path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rejoin.main([])
    assert os.listdir(jobs_after_reboot.directory()) == []
