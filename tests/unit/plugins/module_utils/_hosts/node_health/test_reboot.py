# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the decision whether a host reboots itself."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import reboot, registry, service, storage
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.check import Check, HealthFinding
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions, kept_jobs

REBOOT, REPLACE = HealthFinding("xid", "reboot", "Xid 74."), HealthFinding("gpu_count", "replace", "7 GPUs.")
HOUR = reboot.PAUSE
# The findings that the service has sent to supervisors.
answers = []


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "health/exclusions.json"))
    monkeypatch.setattr(exclusions, "OWNER", os.geteuid())
    monkeypatch.setattr(reboot, "runtime_directory", lambda job, process: f"{tmp_path}/jobs/{job}-{process}")
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


def test_a_host_with_jobs_is_not_rebooted(folder, monkeypatch):
    assert reboot.wait_for_jobs() == ""
    (folder / "jobs/digits-rank0").mkdir(parents=True)
    monkeypatch.setattr(reboot, "PATIENCE", 0.05)
    assert reboot.wait_for_jobs() == "jobs are running on it"
    (folder / "jobs/digits-rank0").rmdir()
    assert reboot.wait_for_jobs() == ""


@pytest.fixture
def commands(folder, monkeypatch):
    """Return a function that runs an action on a host with this finding, and returns the commands that the action has run."""
    called = []

    def run(action, finding, with_reboot=True):
        called.clear()
        check = Check(finding.check, lambda _node: 0, lambda _state, _node: [(finding.severity, finding.message)], (), "")
        monkeypatch.setattr(registry, "checks_for", lambda _context, _mounts: [check])
        monkeypatch.setattr(storage, "read_places", list)
        monkeypatch.setattr(service, "_call", called.append)
        monkeypatch.setattr(service.socket, "socket", lambda fileno: fileno)
        monkeypatch.setattr(service.after_failure, "serve", lambda _listener, examine: answers.extend(examine()))
        settings = folder / "settings.json"
        settings.write_text(json.dumps(service.Settings("", str(folder), "", 0, with_reboot)._asdict()))
        service.main([action, str(settings)])
        return [command[1] for command in called]

    return run


@pytest.mark.parametrize(("finding", "with_reboot", "expected"), [(REBOOT, True, ["start"]), (REBOOT, False, []), (REPLACE, True, [])])
def test_a_reboot_begins_after_the_answer_to_a_supervisor(commands, finding, with_reboot, expected):
    assert commands("answer", finding, with_reboot) == expected


def test_a_host_reboots_if_the_check_still_requires_it(commands):
    assert commands("reboot", REBOOT._replace(severity="monitor")) == []
    assert commands("reboot", REBOOT) == ["reboot"]
    assert commands("reboot", REBOOT) == [], "an hour has not passed"


def test_a_host_with_a_job_does_not_reboot(commands, folder, monkeypatch):
    monkeypatch.setattr(reboot, "PATIENCE", 0.0)
    (folder / "jobs/other-rank0").mkdir(parents=True)
    kept_jobs.write(kept_jobs.directory(), "digits", b"secret")
    assert commands("reboot", REBOOT) == []
    assert kept_jobs.files(kept_jobs.directory()) == []


def test_the_jobs_that_run_are_kept_before_the_reboot(commands, folder, monkeypatch):
    running = {"digits": ["digits-rank0"]}
    monkeypatch.setattr(kept_jobs, "STARTED", str(folder / "started"))
    monkeypatch.setattr(kept_jobs, "runtime_directories", lambda job: running.get(job, []))
    for job in ("digits", "ended"):
        kept_jobs.write(kept_jobs.STARTED, job, b"secret")
    assert commands("answer", REBOOT) == ["start"]
    assert answers[-1]["reboots"]
    (kept,) = kept_jobs.files(kept_jobs.directory())
    assert kept_jobs.job_of(kept) == "digits"
    assert pathlib.Path(kept).stat().st_mode & 0o777 == 0o600
    assert pathlib.Path(kept).parent.stat().st_mode & 0o777 == 0o700
    kept_jobs.delete_ended()
    assert [kept_jobs.job_of(path) for path in kept_jobs.files(kept_jobs.STARTED)] == ["digits"]
    monkeypatch.setattr(kept_jobs, "STARTED", str(folder / "settings.json/none"))
    monkeypatch.setattr(kept_jobs, "files", lambda _place: ["/nowhere/digits.json"])
    assert commands("answer", REBOOT) == ["start"]
    assert not answers[-1]["reboots"], "the job cannot be started again, so it must not wait for the host"
