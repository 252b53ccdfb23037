"""Tests of the program that runs health checks without the controller."""

from __future__ import annotations

import json
import os
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import BOOT, PERIODIC, Check, HealthFinding
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import registry, service, shared_storage
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions, periodic_findings


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Return a function that runs an action on a host on which the check `broken` has these problems."""
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "health/exclusions.json"))
    monkeypatch.setattr(exclusions, "OWNER", os.geteuid())
    monkeypatch.setattr(periodic_findings, "PATH", str(tmp_path / "run/findings.json"))
    monkeypatch.setattr(shared_storage, "read_places", list)
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(service.Settings("", str(tmp_path), "p5.48xlarge", 0, True)._asdict()))

    def run(action, *problems, until_boot=False):
        check = Check(
            "broken",
            lambda node: node.instance_type,
            lambda kind, _node: [(each, f"{kind}.") for each in problems],
            (),
            "",
            until_boot=until_boot,
        )
        monkeypatch.setattr(registry, "checks_for", lambda context, mounts: [check] if context in (BOOT, PERIODIC) else [])
        assert service.main([action, str(settings)]) == 0
        return [each.by for each in exclusions.read("").exclusions]

    return run


@pytest.mark.parametrize("action", ["boot", "periodic"])
def test_a_finding_excludes_the_host_until_the_check_passes(node, action):
    assert node(action, "restart") == []
    assert node(action, "monitor", "reboot") == ["broken"]
    assert node(action) == []


def test_a_finding_that_only_a_boot_repairs_stays(node):
    """Otherwise, a user who fills the journal could prevent the reboot, or make the host look healthy."""
    watched = periodic_findings.PeriodicFindings(0.0)
    assert node("periodic", "reboot", until_boot=True) == ["broken"]
    assert node("periodic", until_boot=True) == ["broken"]
    assert watched.worst(time.time(), list) == ("reboot", "p5.48xlarge")


def test_the_result_of_a_boot_is_recorded(node, tmp_path):
    before = time.time()
    node("boot", "replace")
    found = json.loads((tmp_path / "health/boot.json").read_text())
    assert before <= found["time"] <= time.time()
    assert found["findings"] == [{"check": "broken", "severity": "replace", "message": "p5.48xlarge."}]


def test_supervisors_can_read_the_findings_while_jobs_run(node):
    findings = periodic_findings.PeriodicFindings(0.0)
    node("periodic", "monitor", "restart")
    assert findings.worst(time.time(), list) == ("restart", "p5.48xlarge")


def test_an_error_of_an_application_names_its_process(node, monkeypatch):
    """The name of a file in another finding must not look like a process."""
    error, path = "GPU 0000:64:00: Xid 13 (exception). pid='31', name=python, Graphics.", "/efs/pid=40, name=a: no answer."
    found = [HealthFinding("xid", "restart", error), HealthFinding("xid", "reboot", error), HealthFinding("storage_hang", "restart", path)]
    monkeypatch.setattr(service, "examine", lambda *_: found)
    service.check_periodically(None)
    with open(periodic_findings.PATH, encoding="utf-8") as file:
        assert [each["pid"] for each in json.load(file)["findings"]] == [31, None, None]
