"""Tests that check which health checks run with the module's parameters, and which run before a job."""

from __future__ import annotations

import base64
import os
import threading
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common import gpus
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import HealthFinding
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import efa, examine, shared_storage
from gpu_tools import driver, nvlink, program, smi

PARAMETERS = {
    "user": "ubuntu",
    "context": "on_demand",
    "number": 2,
    "peer": 0,
    "token": "t",
    "instance_type": "p5.48xlarge",
    "efa_devices": 32,
    "mounts": ["/efs", "/more"],
    "disks": ["/scratch"],
    "programs": [{"name": "own", "content": base64.b64encode(b"#!/bin/sh\n").decode()}],
    "checks_timeout": 7,
    "metadata_directory": "/opt/deeplearning",
    "instance_id": "i-0123456789abcdef0",
    "excluded": None,
    "reason": "",
    "check_mode": False,
}


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Return the recorded arguments of each run of the checks, and the list of findings that a run returns."""
    calls, findings = [], []
    monkeypatch.setattr(examine.exclusions, "PATH", str(tmp_path / "node-health/exclusions.json"))
    monkeypatch.setattr(
        examine.shared_storage,
        "read_places",
        lambda: [shared_storage.MountedStorage("/efs"), shared_storage.MountedStorage("/data", read_only=True)],
    )
    monkeypatch.setattr(examine, "run", lambda checks, node: calls.append((checks, node)) or findings)
    monkeypatch.setattr(examine, "Readings", lambda checks, node: calls.append((checks, node)))
    return calls, findings


def test_all_checks_of_the_host_run(ran):
    calls, findings = ran
    findings.append(HealthFinding("disks", "restart", "/: full."))
    result = examine.examine(PARAMETERS)
    ((checks, node),) = calls
    assert [check.subject for check in checks if check.name == "storage"] == ["/efs", "/data", "/more"]
    assert {"xid", "efa", "memory"} < {check.name for check in checks}
    assert (checks[-1].name, checks[-1].limit) == ("own", 9)
    assert (node.instance_type, node.efa_devices, node.number, node.token) == ("p5.48xlarge", 32, 2, "t")
    assert {"/", "/tmp", "/scratch"} < set(node.disks)
    assert result["findings"] == [{"check": "disks", "severity": "restart", "message": "/: full."}]
    assert result["stored"]
    assert not result["changed"]
    assert abs(result["time"] - time.time()) < 600


def test_a_host_without_storage_leaves_no_file(ran):
    ran[1].append(HealthFinding("storage", "restart", "/efs: nothing is mounted."))
    assert not examine.examine(PARAMETERS)["stored"]


def test_between_nodes_only_the_storage_is_read(ran):
    examine.examine({**PARAMETERS, "context": "between_nodes", "peer": 1})
    ((checks, node),) = ran[0]
    assert {check.name for check in checks} == {"storage_of_peer"}
    assert node.peer == 1


def test_deep_checks_have_their_own_context(ran):
    examine.examine({**PARAMETERS, "context": "deep", "dcgm_level": 3, "timeout": 3600})
    ((checks, _node),) = ran[0]
    assert [(check.name, check.limit, check.read.args) for check in checks] == [("dcgm", 3660, (3, 3600))]


@pytest.mark.parametrize(
    ("directory", "places"), [("/efs/jobs", ["/efs"]), ("/efs", ["/efs"]), ("/efs2/jobs", []), ("/home/ubuntu/jobs", [])]
)
def test_before_a_job_its_storage_is_read(ran, directory, places):
    hardware = {"instance_type": "p4d.24xlarge", "efa_devices": 4}
    examine.before_job("deeplearning", {"directory": directory, "metadata_directory": "/opt/deeplearning", **hardware})
    ((checks, node),) = ran[0]
    assert (node.user, node.instance_type, node.efa_devices) == ("deeplearning", "p4d.24xlarge", 4)
    assert [check.subject for check in checks if check.name == "storage"] == places
    assert all(check.read.args[0].read_only for check in checks if check.name == "storage")
    assert {"gpu_count", "efa"} < {check.name for check in checks}
    assert not {"memory", "gpu_processes"} & {check.name for check in checks}


def test_before_a_job_missing_gpus_and_adapters_are_found(tmp_path, monkeypatch):
    """The host has seven of eight GPUs, and had seven when it was configured. It has three of four adapters."""
    (tmp_path / "nvidia-smi").write_text(program(*driver(smi(7), 0, nvlink(*[18] * 7))))
    (tmp_path / "nvidia-smi").chmod(0o755)
    (tmp_path / "metadata.json").write_text('{"gpu_count": 7}')
    for number in range(3):
        (tmp_path / f"rdmap{number}s0").mkdir()
    monkeypatch.setattr(examine.shared_storage, "read_places", list)
    monkeypatch.setattr(gpus, "DIRECTORIES", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(efa.devices, "__defaults__", (str(tmp_path),))
    monkeypatch.setattr(efa.missing_for_efa, "__defaults__", (str(tmp_path), "/nonexistent"))
    params = {"directory": "/efs/jobs", "metadata_directory": str(tmp_path), "instance_type": "p4d.24xlarge", "efa_devices": 4}
    with examine.before_job("nobody", params) as readings:
        found = {finding.check: finding for finding in readings.findings(lambda check: check.name in ("gpu_count", "efa"))}
    assert (found["gpu_count"].severity, found["efa"].severity) == ("replace", "replace")
    assert found["gpu_count"].message == "GPUs: nvidia-smi lists 7, but instance type p4d.24xlarge has 8."
    assert found["efa"].message == "EFA: the host has 3 adapters, but 4 are attached to the instance."


def test_only_findings_that_make_a_node_unhealthy_are_a_refusal():
    monitor, restart = HealthFinding("xid", "monitor", "Xid 63."), HealthFinding("disks", "restart", "/: full.")
    assert examine.refusal([monitor]) == ""
    assert examine.refusal([monitor, restart]) == "disks: /: full."


def exclude(**changes):
    """Return the names of those who exclude the host after a run of the module, and whether the run changed the exclusions."""
    result = examine.examine({**PARAMETERS, **changes})
    return [each["by"] for each in result["exclusions"]], result["changed"]


def test_a_person_waits_for_another_change_of_the_exclusions(ran, monkeypatch):
    monkeypatch.setattr(examine.exclusions, "OWNER", os.geteuid())
    found = []
    thread = threading.Thread(target=lambda: found.extend(exclude(excluded=True, reason="bad cable")[0]))
    with examine.exclusions.locked():
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        cause = examine.exclusions.Exclusion("recovery", "two attempts failed", 60.0)
        examine.exclusions.write(examine.exclusions.Memory(PARAMETERS["instance_id"], (cause,)))
    thread.join(10)
    assert found == ["recovery", "person"]


def test_a_check_and_a_person_exclude_the_host(ran, monkeypatch):
    monkeypatch.setattr(examine.exclusions, "OWNER", os.geteuid())
    findings = ran[1]
    findings.append(HealthFinding("xid", "replace", "GPU 0000:64:00: Xid 79."))
    assert exclude(check_mode=True) == (["xid"], True)
    assert exclude() == (["xid"], True), "check mode did not change anything"
    assert exclude() == (["xid"], False)
    assert exclude(excluded=True, reason="bad cable") == (["xid", "person"], True)
    (_xid, person) = examine.examine(PARAMETERS)["exclusions"]
    assert person["text"].endswith("by a person: bad cable.")
    assert exclude(context="between_nodes") == (["xid", "person"], False)
    findings.clear()
    assert exclude() == (["xid", "person"], False), "the kernel log can lose the error"
    assert exclude(excluded=False) == ([], True), "a person can end the exclusion of a check that passes"
    assert exclude(excluded=True, reason="bad cable") == (["person"], True)
    assert exclude() == (["person"], False), "a check cannot end the exclusion of a person"
    assert exclude(excluded=False) == ([], True)
    assert exclude() == ([], False)
    findings.append(HealthFinding("xid", "replace", "GPU 0000:64:00: Xid 79."))
    assert exclude(excluded=False) == (["xid"], True), "a person cannot end the exclusion of a check"
    assert exclude(instance_id="i-0fedcba9876543210", context="between_nodes")[0] == ["xid"]
    findings.clear()
    assert exclude(instance_id="i-0fedcba98765432ff", context="between_nodes")[0] == [], "it is a new instance"


def test_storage_that_a_person_names_or_that_a_job_uses_is_not_foreign(ran, monkeypatch):
    calls, _findings = ran
    monkeypatch.setattr(examine.shared_storage, "read_places", lambda: [shared_storage.MountedStorage("/team", is_foreign=True)])
    for mounts, hanging in (([], "monitor"), (["/team"], "restart")):
        examine.examine({**PARAMETERS, "mounts": mounts})
        assert [check.hanging for check in calls[-1][0] if check.name == "storage"] == [hanging]
    job = {"directory": "/team/jobs/a", "instance_type": "", "efa_devices": 0, "metadata_directory": "/opt/deeplearning"}
    examine.before_job("ubuntu", job)
    assert [check.hanging for check in calls[-1][0] if check.name == "storage"] == ["restart"]


def test_problems_of_other_storage_do_not_end_the_test_between_nodes(ran):
    _calls, findings = ran
    findings.append(HealthFinding("storage", "monitor", "/archive: nothing is mounted."))
    assert examine.examine(PARAMETERS)["stored"] is True
    findings.append(HealthFinding("storage", "restart", "/efs: nothing is mounted."))
    assert examine.examine(PARAMETERS)["stored"] is False
