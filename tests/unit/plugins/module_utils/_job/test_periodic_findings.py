# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the findings that root passes to supervisors."""

from __future__ import annotations

import json
import os
import stat

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import periodic_findings

MONITOR = {"check": "xid", "severity": "monitor", "message": "unknown."}
RESTART = {"check": "storage_hang", "severity": "restart", "message": "/efs: no answer within 60 s."}
REPLACE = {"check": "xid", "severity": "replace", "message": "Xid 79."}


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    result = tmp_path / "health/findings.json"
    monkeypatch.setattr(periodic_findings, "PATH", str(result))
    return result


def test_the_worst_finding_is_returned_once(path):
    findings = periodic_findings.PeriodicFindings(since=100.0)
    assert findings.worst(150.0) is None
    periodic_findings.write([MONITOR, REPLACE], 150.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert findings.worst(151.0) == ("replace", "Xid 79")
    assert findings.worst(152.0) is None
    periodic_findings.write([RESTART, MONITOR], 153.0)
    os.utime(path, (1e9, 1e9))
    assert findings.worst(154.0) == ("restart", "/efs: no answer within 60 s")
    periodic_findings.write([MONITOR], 155.0)
    os.utime(path, (2e9, 2e9))
    assert findings.worst(156.0) is None


def test_a_finding_that_only_requires_a_restart_of_the_job_counts_once_while_it_stays(path):
    other = {**RESTART, "message": "/fsx: no answer within 60 s."}
    periodic_findings.write([RESTART], 99.0)
    findings = periodic_findings.PeriodicFindings(since=100.0)
    found = []
    for number, reported in enumerate([[RESTART], [RESTART, other], [RESTART, other], [other], [RESTART], [RESTART, REPLACE], [REPLACE]]):
        now = 150.0 + number
        periodic_findings.write(reported, now)
        os.utime(path, (now, now))
        found.append(findings.worst(now))
    restart, replace = ("restart", RESTART["message"][:-1]), ("replace", "Xid 79")
    assert found == [None, ("restart", "/fsx: no answer within 60 s"), None, None, restart, replace, replace]


@pytest.mark.parametrize(("written", "now"), [(99.0, 101.0), (150.0, 150.0 + periodic_findings.MAX_AGE + 1), (250.0, 150.0)])
def test_an_earlier_or_old_finding_does_not_count(written, now):
    periodic_findings.write([REPLACE], written)
    assert periodic_findings.PeriodicFindings(since=100.0).worst(now) is None


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"\xff", json.dumps({"time": 150, "findings": [MONITOR]}).encode(), b'{"time": 150, "findings": 1}']
)
def test_a_file_that_is_not_valid_contains_no_findings(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    assert periodic_findings.PeriodicFindings(since=100.0).worst(150.0) is None
