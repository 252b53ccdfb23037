"""Tests of the findings that root passes to supervisors."""

from __future__ import annotations

import json
import os
import stat

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import periodic_findings

MONITOR = {"check": "xid", "severity": "monitor", "message": "unknown."}
RESTART = {"check": "storage_hang", "severity": "restart", "message": "/efs: no answer within 60 s."}
REBOOT = {"check": "nvlink", "severity": "reboot", "message": "NVLink 3 is down."}
REPLACE = {"check": "xid", "severity": "replace", "message": "Xid 79."}


def own_processes():
    return [30, 31]


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    result = tmp_path / "health/findings.json"
    monkeypatch.setattr(periodic_findings, "PATH", str(result))
    return result


def test_the_worst_finding_is_returned_once(path):
    findings = periodic_findings.PeriodicFindings(since=100.0)
    assert findings.worst(150.0, own_processes) is None
    periodic_findings.write([MONITOR, REPLACE], 150.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert findings.worst(151.0, own_processes) == ("replace", "Xid 79")
    assert findings.worst(152.0, own_processes) is None
    periodic_findings.write([RESTART, MONITOR], 153.0)
    os.utime(path, (1e9, 1e9))
    assert findings.worst(154.0, own_processes) == ("restart", "/efs: no answer within 60 s")
    periodic_findings.write([MONITOR], 155.0)
    os.utime(path, (2e9, 2e9))
    assert findings.worst(156.0, own_processes) is None


@pytest.mark.parametrize(("reported", "worst"), [([RESTART, REBOOT], "reboot"), ([REBOOT, REPLACE, RESTART], "replace")])
def test_the_finding_that_requires_most_is_the_worst(reported, worst):
    findings = periodic_findings.PeriodicFindings(since=100.0)
    periodic_findings.write(reported, 150.0)
    assert findings.worst(151.0, own_processes).severity == worst


def test_a_finding_that_only_requires_a_restart_of_the_job_counts_once_while_it_stays(path):
    other = {**RESTART, "message": "/fsx: no answer within 60 s."}
    periodic_findings.write([RESTART], 99.0)
    findings = periodic_findings.PeriodicFindings(since=100.0)
    found = []
    for number, reported in enumerate([[RESTART], [RESTART, other], [RESTART, other], [other], [RESTART], [RESTART, REPLACE], [REPLACE]]):
        now = 150.0 + number
        periodic_findings.write(reported, now)
        os.utime(path, (now, now))
        found.append(findings.worst(now, own_processes))
    restart, replace = ("restart", RESTART["message"][:-1]), ("replace", "Xid 79")
    assert found == [None, ("restart", "/fsx: no answer within 60 s"), None, None, restart, replace, replace]


def test_a_finding_that_names_a_process_concerns_only_the_job_of_this_process(path):
    def found(*reported):
        findings = periodic_findings.PeriodicFindings(since=100.0)
        periodic_findings.write(reported, 150.0)
        return findings.worst(151.0, own_processes)

    own, other = {**RESTART, "message": "Xid 13. pid=31.", "pid": 31}, {**RESTART, "message": "Xid 13. pid=40.", "pid": 40}
    assert found(other) is None
    path.unlink()
    assert found(other, own) == ("restart", "Xid 13. pid=31")
    path.unlink()
    assert found(RESTART, other) == ("restart", "/efs: no answer within 60 s")
    path.unlink()
    assert found({**REPLACE, "pid": 40}) == ("replace", "Xid 79"), "a faulty GPU concerns all jobs on the host"


def test_a_finding_that_a_blocked_supervisor_reads_late_counts_only_if_the_next_checks_report_it_again(path):
    """The storage that has blocked the supervisor answers again. A supervisor that is not blocked reads the file every 2 s."""
    findings = periodic_findings.PeriodicFindings(since=100.0)
    periodic_findings.write([RESTART], 150.0)
    assert findings.worst(156.0, own_processes) is None
    periodic_findings.write([RESTART], 200.0)
    os.utime(path, (1e9, 1e9))
    assert findings.worst(202.0, own_processes) == ("restart", "/efs: no answer within 60 s")


@pytest.mark.parametrize(("written", "now"), [(99.0, 101.0), (150.0, 150.0 + periodic_findings.MAX_AGE + 1), (250.0, 150.0)])
def test_an_earlier_or_old_finding_does_not_count(written, now):
    periodic_findings.write([REPLACE], written)
    assert periodic_findings.PeriodicFindings(since=100.0).worst(now, own_processes) is None


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"\xff", json.dumps({"time": 150, "findings": [MONITOR]}).encode(), b'{"time": 150, "findings": 1}']
)
def test_a_file_that_is_not_valid_contains_no_findings(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    assert periodic_findings.PeriodicFindings(since=100.0).worst(150.0, own_processes) is None
