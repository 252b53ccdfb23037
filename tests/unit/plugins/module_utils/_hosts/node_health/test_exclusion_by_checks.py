"""Tests of the exclusions that health checks make and end."""

from __future__ import annotations

import json
import os
import threading
from xml.etree import ElementTree

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import AFTER_FAILURE, HealthFinding
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import exclusion_by_checks
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.registry import CHECKS, checks_for
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions
from gpu_tools import driver, program, smi

INSTANCE = "i-0123456789abcdef0"
XID = HealthFinding("xid", "replace", "GPU 0000:64:00: Xid 79 (the GPU has fallen off the bus).")
UNKNOWN = HealthFinding("xid", "monitor", "GPU 0000:64:00: Xid 4711.")
ROOT = HealthFinding("root", "reboot", "/: is read-only.")
HANG = HealthFinding("gpu_count", "reboot", "nvidia-smi: no answer within 30 s.")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "health/exclusions.json"))
    monkeypatch.setattr(exclusions, "OWNER", os.geteuid())
    monkeypatch.setattr(exclusion_by_checks.gpus, "DIRECTORIES", str(tmp_path))
    return tmp_path


def update(*findings, checks=CHECKS):
    return [each.by for each in exclusion_by_checks.update(INSTANCE, checks, findings, 100.0).exclusions]


def test_a_finding_excludes_the_host_until_the_same_check_passes(place):
    (place / "nvidia-smi").write_text(program(("'-q -x'", smi(2), 0)))
    (place / "nvidia-smi").chmod(0o755)
    lost = XID._replace(check="gpu_errors")
    assert update(lost) == ["gpu_errors"]
    (found,) = exclusions.read(INSTANCE).exclusions
    assert (found.reason, found.gpus, found.severity) == (lost.message, ("GPU-5f2d7c1a-0000-0000-0000-000000000064",), "replace")
    others = [check for check in CHECKS if check.name != "gpu_errors"]
    assert update(checks=others) == ["gpu_errors"], "other checks do not end the exclusion"
    assert update() == []
    assert exclusions.read(INSTANCE).exclusions == ()


def test_an_error_in_the_kernel_log_excludes_the_host_until_the_next_boot(monkeypatch):
    """The journal deletes old messages if it is full, and every user can fill it."""
    assert update(XID) == ["xid"]
    assert update() == ["xid"]
    memory = exclusions.read(INSTANCE)
    assert exclusion_by_checks.find_remembered(memory, CHECKS, []) == [XID]
    assert exclusion_by_checks.find_remembered(memory, CHECKS, [XID]) == exclusion_by_checks.find_remembered(memory, [], []) == []
    assert exclusion_by_checks.without_passed(memory, CHECKS, [], by_person=True).exclusions == ()
    monkeypatch.setattr(exclusion_by_checks, "current_boot", lambda: "0f-1e:42")
    assert exclusion_by_checks.find_remembered(memory, CHECKS, []) == []
    assert update() == []


def test_after_a_boot_an_error_excludes_the_host_until_the_boot_after_it(monkeypatch):
    update(XID)
    monkeypatch.setattr(exclusion_by_checks, "current_boot", lambda: "0f-1e:42")
    assert update(XID) == update() == ["xid"]


def test_the_exclusions_of_an_older_version_end_when_the_check_passes():
    old = exclusions.Exclusion("xid", "Xid 79", 60.0)
    document = {
        "instance": INSTANCE,
        "included": 0.0,
        "exclusions": [{name: old._asdict()[name] for name in ("by", "reason", "since", "gpus")}],
    }
    os.makedirs(os.path.dirname(exclusions.PATH))
    with open(exclusions.PATH, "w", encoding="utf-8") as file:
        json.dump(document, file)
    assert exclusions.read(INSTANCE).exclusions == (old,)
    assert update() == []


def test_a_boot_is_recognized():
    assert exclusion_by_checks.current_boot() == exclusion_by_checks.current_boot()
    assert exclusions.EXCLUSION["boot"].accepts(exclusion_by_checks.current_boot())


def test_a_person_and_a_check_exclude_a_host_at_the_same_time(monkeypatch):
    """The slow nvidia-smi does not delay a person, whose exclusion is not lost."""
    person = exclusions.Exclusion("person", "bad cable", 60.0)

    def exclude_as_person():
        with exclusions.locked():
            exclusions.write(exclusions.exclude(exclusions.read(INSTANCE), person))
        return {}

    monkeypatch.setattr(exclusion_by_checks, "list_gpus", exclude_as_person)
    assert update(XID) == ["person", "xid"]
    assert exclusions.read(INSTANCE).exclusions[0] == person


def test_changes_of_exclusions_wait_for_each_other():
    thread = threading.Thread(target=update, args=(ROOT,))
    with exclusions.locked():
        before = exclusions.read(INSTANCE)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        exclusions.write(exclusions.exclude(before, exclusions.Exclusion("person", "bad cable", 60.0)))
    thread.join(10)
    assert [each.by for each in exclusions.read(INSTANCE).exclusions] == ["person", "root"]
    assert os.stat(os.path.join(os.path.dirname(exclusions.PATH), "lock")).st_mode & 0o777 == 0o600, "users cannot hold the lock"


@pytest.mark.parametrize("severity", ["monitor", "restart"])
def test_other_findings_exclude_nothing(severity):
    assert update(HealthFinding("disks", severity, "/: full."), UNKNOWN) == []
    assert not os.path.exists(exclusions.PATH)


@pytest.mark.parametrize(
    "message",
    ["The check failed: OSError: no such file.", "The check ended without a result.", "the kernel log: no answer within 5 s."],
)
def test_a_check_that_could_not_run_has_not_passed(message):
    update(ROOT)
    assert update(HealthFinding("root", "monitor", message)) == ["root"]
    assert update(UNKNOWN) == [], "an unknown error is no reason for an exclusion"


def test_a_host_whose_disk_is_read_only_reports_its_exclusions_without_storing_them(monkeypatch):
    def refuse(*_arguments, **_options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(exclusions.os, "makedirs", refuse)
    assert update(XID) == ["xid"]
    assert not os.path.exists(exclusions.PATH)


def test_checks_of_a_reading_that_failed_have_not_passed():
    """A hanging nvidia-smi is reported only by the first of the checks that read its output."""
    update(HealthFinding("gpu_errors", "replace", "GPU 00000000:64:00.0: a memory row could not be remapped."))
    assert update(HANG) == ["gpu_errors", "gpu_count"]


def test_gpus_that_nvidia_smi_does_not_describe_are_unknown():
    log = ElementTree.fromstring("<log><gpu id='x'/><gpu id='00000000:64:00.0'><uuid>a b</uuid></gpu></log>")
    assert exclusion_by_checks.uuids(log.findall("gpu")) == {}


@pytest.mark.parametrize("text", ["", "<xml", smi(8)[:-30]])
def test_an_output_without_gpus_is_no_error(tmp_path, monkeypatch, text):
    monkeypatch.setattr(exclusion_by_checks.gpus, "DIRECTORIES", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "nvidia-smi").write_text(program(*driver(text)))
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert exclusion_by_checks.list_gpus() == {}


def test_after_a_failure_only_checks_run_that_can_exclude_a_host():
    names = {check.name for check in checks_for(AFTER_FAILURE, ())}
    assert {"xid", "gpu_count", "gpu_errors", "gpu_links", "root"} <= names
    assert not names & {"disks", "memory", "storage", "certificates", "gpu_processes"}
