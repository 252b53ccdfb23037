"""Tests of the exclusions of hosts that have caused failures."""

from __future__ import annotations

import os

from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusion_after_failures, exclusions, failure_causes
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.exclusions import RECOVERY, Exclusion, Memory

INSTANCE, OTHER = "i-0123456789abcdef0", "i-0fedcba9876543210"
XID = Exclusion("xid", "GPU 0000:64:00: Xid 79", 100.0)


def test_a_host_that_was_the_cause_of_two_failures_is_excluded():
    memory = Memory(INSTANCE, (XID,), included=100.0)
    once = {"attempt 1 of a": 200.0, "attempt 1 of old": 50.0}
    assert exclusion_after_failures.after_failures(memory, once, 300.0) == memory, "a person has included the host after the first failure"
    twice = exclusion_after_failures.after_failures(memory, {**once, "attempt 3 of b": 250.0}, 300.0)
    reason = "2 attempts of jobs failed because of this host, the last of them attempt 1 of a, attempt 3 of b"
    assert twice.exclusions == (XID, Exclusion(RECOVERY, reason, 300.0))
    assert exclusion_after_failures.after_failures(twice, {**once, "attempt 3 of b": 250.0}, 900.0) == twice
    assert exclusion_after_failures.after_failures(
        exclusions.include(twice, 260.0), {**once, "attempt 3 of b": 250.0}, 300.0
    ).exclusions == (XID,)
    forged = {"attempt 1 of a": 4e9, "attempt 2 of a": 5e9}
    assert exclusion_after_failures.after_failures(memory, forged, 300.0) == memory, "times in the future would count after each inclusion"


def test_only_the_last_failures_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(exclusion_after_failures, "FAILURES_READ", 2)
    exclusion_after_failures.make_failures_directory(str(tmp_path))
    for attempt in range(1, 5):
        exclusion_after_failures.record_failure(str(tmp_path), INSTANCE, "digits", attempt)
        os.utime(tmp_path / exclusion_after_failures.FAILURES_DIRECTORY / f"{INSTANCE},digits,{attempt}", (10 - attempt, 10 - attempt))
    assert exclusion_after_failures.read_failures(str(tmp_path), INSTANCE) == {"attempt 1 of digits": 9.0, "attempt 2 of digits": 8.0}


def test_the_time_of_a_link_is_not_that_of_another_file(tmp_path):
    exclusion_after_failures.make_failures_directory(str(tmp_path))
    (tmp_path / "other").touch()
    os.utime(tmp_path / "other", (5.0, 5.0))
    (tmp_path / exclusion_after_failures.FAILURES_DIRECTORY / f"{INSTANCE},digits,1").symlink_to("../other")
    assert exclusion_after_failures.read_failures(str(tmp_path), INSTANCE)["attempt 1 of digits"] > 5.0


def test_a_job_cannot_make_a_host_read_files_without_end(tmp_path, monkeypatch):
    exclusion_after_failures.make_failures_directory(str(tmp_path))
    monkeypatch.setattr(exclusion_after_failures, "FAILURES_LIMIT", 3)
    for attempt in range(1, 9):
        exclusion_after_failures.record_failure(str(tmp_path), INSTANCE, "digits", attempt)
    assert len(exclusion_after_failures.read_failures(str(tmp_path), INSTANCE)) == 3


def test_failures_are_recorded_for_each_node_and_attempt(tmp_path):
    jobs = str(tmp_path)
    exclusion_after_failures.record_failure(jobs, INSTANCE, "digits", 1)
    assert exclusion_after_failures.read_failures(jobs, INSTANCE) == {}, "the directory does not exist yet"
    exclusion_after_failures.make_failures_directory(jobs)
    exclusion_after_failures.make_failures_directory(jobs)
    folder = tmp_path / exclusion_after_failures.FAILURES_DIRECTORY
    assert folder.stat().st_mode & 0o7777 == 0o1777
    for node, job, attempt in ((INSTANCE, "digits", 1), (INSTANCE, "digits", 1), (INSTANCE, "digits-2", 4), (OTHER, "digits", 2)):
        exclusion_after_failures.record_failure(jobs, node, job, attempt)
    for name in (INSTANCE, f"{INSTANCE},Digits,1", f"{INSTANCE},digits,0", f"{INSTANCE}0,digits,1"):
        (folder / name).touch()
    assert set(exclusion_after_failures.read_failures(jobs, INSTANCE)) == {"attempt 1 of digits", "attempt 4 of digits-2"}
    assert set(exclusion_after_failures.read_failures(jobs, OTHER)) == {"attempt 2 of digits"}
    assert (folder / f"{OTHER},digits,2").stat().st_mode & 0o777 == 0o644


def test_only_failures_for_which_no_script_can_be_responsible_are_recorded():
    recorded = {kind for kind in failure_causes.KINDS if exclusion_after_failures.is_recorded(kind)}
    assert recorded == {failure_causes.HOST_LOST, failure_causes.HEALTH}
