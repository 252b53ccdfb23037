"""Tests of the decision whether a host reboots itself."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import Check, HealthFinding
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import transient_units
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import reboot, registry, service, shared_storage
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_export import unit
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import (
    directories,
    exclusions,
    jobs_after_reboot,
    periodic_findings,
    recovery,
)
from local_cloud.testing import wait_until

REBOOT, REPLACE = HealthFinding("xid", "reboot", "Xid 74."), HealthFinding("gpu_count", "replace", "7 GPUs.")
HOUR = reboot.PAUSE
EXPORTS = directories.EXPORTS
# The findings that the service has sent to supervisors.
answers = []


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "health/exclusions.json"))
    monkeypatch.setattr(exclusions, "OWNER", os.geteuid())
    monkeypatch.setattr(jobs_after_reboot, "STARTED", str(tmp_path / "started"))
    monkeypatch.setattr(directories, "runtime_directory", lambda job, process: f"{tmp_path}/jobs/{job}-{process}")
    monkeypatch.setattr(directories, "EXPORTS", str(tmp_path / "exports"))
    monkeypatch.setattr(directories, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(reboot, "INTERVAL", 0.01)
    return tmp_path


def test_a_host_is_rebooted_at_most_once_per_hour():
    assert reboot.find_refusal([REBOOT], 10 * HOUR) == reboot.record(10 * HOUR) == ""
    assert "less than an hour ago" in reboot.find_refusal([REBOOT], 11 * HOUR - 1)
    assert reboot.find_refusal([REBOOT], 11 * HOUR) == ""


@pytest.mark.parametrize("findings", [[], [REPLACE], [REBOOT, REPLACE]])
def test_a_host_that_is_healthy_or_should_be_replaced_is_not_rebooted(folder, findings):
    assert not reboot.is_needed(findings)
    assert reboot.find_refusal(findings, 10 * HOUR) == "no health check requires only a reboot"
    assert not (folder / "health").exists()


def test_a_host_is_not_rebooted_again_for_a_check_that_a_boot_has_not_repaired():
    def booted(*findings):
        reboot.write_document(reboot.BOOT_RESULT, {"time": 1.0, "findings": [each._asdict() for each in findings]})

    booted(REBOOT)
    assert reboot.find_refusal([REBOOT], 10 * HOUR) == "the check xid has had a finding since the last boot"
    booted(HealthFinding("xid", "monitor", "unknown."), REPLACE)
    assert reboot.find_refusal([REBOOT], 10 * HOUR) == ""


@pytest.mark.parametrize(("uptime", "refused"), [(HOUR - 1, True), (HOUR, False)])
def test_if_a_reboot_cannot_be_recorded_the_time_since_the_boot_counts(folder, monkeypatch, uptime, refused):
    (folder / "health").write_text("no directory")
    monkeypatch.setattr(reboot, "uptime", lambda: uptime)
    assert reboot.find_refusal([REBOOT], 10 * HOUR) == ""
    assert bool(reboot.record(10 * HOUR)) == refused


def test_the_uptime_is_that_of_the_first_process(folder):
    ticks = os.sysconf("SC_CLK_TCK")
    (folder / "stat").write_text("1 (a) b) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 0 1 1\n")
    assert abs(reboot.uptime(str(folder / "stat")) - reboot.uptime("/proc/self/stat")) > 0
    assert reboot.uptime("/proc/self/stat") < float(pathlib.Path("/proc/uptime").read_text().split()[0]) + 1 / ticks


def hindrance():
    with reboot.idle_host() as result:
        return result


def test_a_host_with_jobs_is_not_rebooted(folder, monkeypatch):
    assert hindrance() == ""
    (folder / "jobs/digits-rank0").mkdir(parents=True)
    monkeypatch.setattr(reboot, "PATIENCE", 0.05)
    assert hindrance() == "jobs are running on it"
    (folder / "jobs/digits-rank0").rmdir()
    assert hindrance() == ""


def test_exports_delay_a_reboot_but_cannot_prevent_it(folder, monkeypatch):
    """A job can make its own export last for days."""
    (folder / "exports/digits").mkdir(parents=True)
    monkeypatch.setattr(reboot, "PATIENCE", 1.0)
    polls = []
    monkeypatch.setattr(reboot, "INTERVAL", 0.01)
    monkeypatch.setattr(directories, "running_exports", lambda: polls.append(1) or ["digits"])
    assert hindrance() == ""
    assert len(polls) > 1
    assert os.path.dirname(unit._directory("digits", "export")) == EXPORTS


def test_no_job_starts_between_the_last_look_and_the_reboot(monkeypatch):
    def start():
        with transient_units.exclusive():
            pass

    monkeypatch.setattr(transient_units, "PATIENCE", 0.0)
    monkeypatch.setattr(reboot, "PATIENCE", 0.05)
    with reboot.idle_host() as result:
        assert result == ""
        with pytest.raises(systemd.UnitError):
            start()
    start()
    with transient_units.exclusive():
        assert hindrance() == "jobs are running on it", "a job is being started"


def test_a_host_that_reboots_is_back_before_the_other_hosts_no_longer_wait():
    assert reboot.PATIENCE <= recovery.REBOOT_PATIENCE / 5


@pytest.fixture
def commands(folder, monkeypatch):
    """Return a function that runs an action on a host with this finding, and returns the commands that the action has run."""
    called = []

    def run(action, finding, with_reboot=True, works=True):
        called.clear()
        check = Check(finding.check, lambda _node: 0, lambda _state, _node: [(finding.severity, finding.message)], (), "")
        monkeypatch.setattr(registry, "checks_for", lambda _context, _mounts: [check])
        monkeypatch.setattr(shared_storage, "read_places", list)
        monkeypatch.setattr(service, "_call", lambda command: called.append(command) or works)
        monkeypatch.setattr(service.socket, "socket", lambda fileno: fileno)
        monkeypatch.setattr(service.answers_to_supervisors, "serve", lambda _listener, examine: answers.extend(examine()))
        settings = folder / "settings.json"
        settings.write_text(json.dumps(service.Settings("", str(folder), "", 0, with_reboot)._asdict()))
        service.main([action, str(settings)])
        return [command[1] for command in called]

    return run


@pytest.mark.parametrize(("finding", "with_reboot", "expected"), [(REBOOT, True, ["restart"]), (REBOOT, False, []), (REPLACE, True, [])])
def test_a_reboot_begins_after_the_answer_to_a_supervisor(commands, finding, with_reboot, expected):
    assert commands("answer", finding, with_reboot) == expected


def test_a_host_whose_job_relies_on_it_reboots_even_if_the_kernel_log_has_lost_the_message(commands):
    assert commands("reboot", REBOOT._replace(severity="monitor")) == ["reboot"]
    assert commands("answer", REBOOT) == [], "an hour has not passed"


def test_a_host_with_a_job_does_not_reboot(commands, folder, monkeypatch):
    monkeypatch.setattr(reboot, "PATIENCE", 0.0)
    (folder / "jobs/other-rank0").mkdir(parents=True)
    jobs_after_reboot.write(jobs_after_reboot.directory(), "digits", b"secret")
    assert commands("reboot", REBOOT) == []
    assert jobs_after_reboot.files(jobs_after_reboot.directory()) == []


@pytest.fixture
def running(folder):
    """Return a function that starts a process of a job which root has described in memory."""

    def start(job):
        (folder / f"jobs/{job}-rank0").mkdir(parents=True)
        jobs_after_reboot.write(jobs_after_reboot.STARTED, job, b"secret")

    return start


def test_the_job_that_runs_is_kept_before_the_reboot(commands, running, folder):
    running("digits-2")
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "digits", b"secret")
    assert commands("answer", REBOOT) == ["restart"]
    assert answers[-1]["reboots"] == "digits-2"
    (kept,) = jobs_after_reboot.files(jobs_after_reboot.directory())
    assert jobs_after_reboot.job_of(kept) == "digits-2"
    assert pathlib.Path(kept).stat().st_mode & 0o777 == 0o600
    assert pathlib.Path(kept).parent.stat().st_mode & 0o777 == 0o700
    jobs_after_reboot.delete_ended()
    assert [jobs_after_reboot.job_of(path) for path in jobs_after_reboot.files(jobs_after_reboot.STARTED)] == ["digits-2"]

    (folder / "jobs/digits-2-rank0").rmdir()
    commands("answer", REBOOT)
    assert jobs_after_reboot.files(jobs_after_reboot.directory()) == [kept], (
        "a user who requests the checks cannot prevent the start after the reboot"
    )


def test_no_job_waits_for_a_host_that_may_not_reboot_in_time(commands, running, folder):
    """Another job may run for hours."""
    running("digits")
    (folder / "exports/ended").mkdir(parents=True)
    (folder / "jobs/other-rank0").mkdir()
    assert commands("answer", REBOOT) == ["restart"]
    assert answers[-1]["reboots"] == ""
    (folder / "jobs/other-rank0").rmdir()
    commands("answer", REBOOT)
    assert answers[-1]["reboots"] == "digits"


def left(folder):
    return sorted(path.name for path in (folder / "health/rejoin").glob("*"))


def test_secrets_do_not_stay_on_the_disk_of_a_host_that_does_not_reboot(commands, running, folder, monkeypatch):
    running("digits")
    commands("answer", REBOOT, works=False)
    assert (answers[-1]["reboots"], left(folder)) == ("", [])

    def full(_old, _new, **_directories):
        raise OSError("the disk is full")

    with monkeypatch.context() as changes:
        changes.setattr(jobs_after_reboot.os, "replace", full)
        assert (jobs_after_reboot.keep(), left(folder)) == ("", [])

    assert jobs_after_reboot.keep() == "digits"
    (folder / "jobs/digits-rank0").rmdir()
    with monkeypatch.context() as changes:
        changes.setattr(reboot, "record", lambda _now: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            commands("reboot", REBOOT)
    assert left(folder) == []

    jobs_after_reboot.write(jobs_after_reboot.directory(), "digits", b"secret")
    commands("reboot", REBOOT, works=False)
    assert left(folder) == []
    jobs_after_reboot.write(jobs_after_reboot.directory(), "digits", b"secret")
    commands("reboot", REBOOT)
    assert left(folder) == ["digits.json"]


@pytest.mark.parametrize("action", ["answer", "periodic"])
def test_secrets_do_not_stay_in_memory_after_the_end_of_a_job(commands, running, folder, monkeypatch, action):
    monkeypatch.setattr(periodic_findings, "PATH", str(folder / "findings.json"))
    running("digits")
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "ended", b"secret")

    def kept():
        commands(action, REPLACE)
        return [jobs_after_reboot.job_of(path) for path in jobs_after_reboot.files(jobs_after_reboot.STARTED)]

    with transient_units.exclusive():
        assert kept() == ["digits", "ended"], "the processes of a job that is being started do not exist yet"
    # A process that was forked while the lock was held holds it too, until it executes its program.
    wait_until(lambda: kept() == ["digits"])
