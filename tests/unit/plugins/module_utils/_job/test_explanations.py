"""Tests of the sentences about the ends of processes and attempts."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import explanations, failure_causes, records, recovery
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.storage_problems import StorageProblem

from .conftest import CAUSE, DECISION, ENDED, TIMED_OUT, killed_by, write


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"state": "failed", "exit_code": 3}, "ended with exit status 3"),
        ({"state": "failed", "signal": "SIGKILL"}, "was killed by signal SIGKILL"),
        ({"state": "failed", "reason": "reached its time limit of 5 s", "signal": "SIGTERM"}, "reached its time limit of 5 s"),
        ({"state": "lost", "heartbeat": 1767225600.5}, "has sent no heartbeat since 2026-01-01 00:00:00 UTC"),
        ({"state": "lost", "heartbeat": 1767225900.0}, "has sent no heartbeat since 2026-01-01 00:05:00 UTC"),
        ({"state": "lost", "heartbeat": 1767225900.5}, "has a heartbeat time in the future, 2026-01-01 00:05:00 UTC"),
    ],
)
def test_how_a_process_ended(monkeypatch, record, words):
    monkeypatch.setattr(explanations.time, "time", lambda: 1767225600.0)
    assert explanations.describe_end(record) == words


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, {"exit_code": 0}), (3, {"exit_code": 3}), (-1, {"signal": "SIGHUP"}), (-9, {"signal": "SIGKILL"}), (-40, {"signal": "40"})],
)
def test_what_a_record_keeps_of_a_return_code(code, expected):
    assert explanations.outcome(code) == expected


def test_decisions_explain_themselves_with_the_words_of_the_rule(job):
    """A job can forge a decision, but not the sentence that is displayed."""
    forged = {
        **DECISION,
        "action": "stop",
        "rule": "same_error",
        "why": "Run this as root: rm -rf /",
        "cause": {**CAUSE, "what": "ValueError at train.py, line 42"},
    }
    write(job.following, forged)
    shown = explanations.explain(records.read_following(job), 7)
    assert shown == ("The same error ended attempts 6 and 7, with no new checkpoint in between. Correct line 42 of train.py or its data.")
    assert (
        explanations.explain({**DECISION, "action": "stop", "rule": "same_hosts"}, 1)
        == "The recorded decision names an unknown rule (same_hosts)."
    )
    found = {**DECISION, "action": "stop", "rule": "too_few_hosts", "missing": ["w2"], "min_hosts": 2}
    assert explanations.explain(found, 1) == "w2 cannot be used, and the job needs 2 hosts (training_job_min_hosts)."


READ_ONLY = {"cause": {"kind": "health", "what": "/: is read-only", "name": "reboot"}, "failure": ENDED}
USED_UP = (
    "training_job_restarts is 2, and each of the last 2 restarts ended without a new checkpoint. Correct the cause, save checkpoints more "
    "often, or increase training_job_restarts."
)


@pytest.mark.parametrize(
    ("action", "rule", "found", "sentence"),
    [
        ("restart", "suspect_host", {"failure": ENDED}, "Attempts 2 and 3 failed on w1, so the job continues without this host."),
        ("restart", "suspect_host", {}, "Attempts 2 and 3 failed on , so the job continues without this host."),
        (
            "restart",
            "suspect_checkpoint",
            {"set_aside": {"name": "7.pt", "changed": 1.0}},
            "Attempts 2 and 3 failed after checkpoint 7.pt, so the job uses the checkpoint before it.",
        ),
        ("restart", "suspect_checkpoint", {}, "Attempts 2 and 3 failed after checkpoint , so the job uses the checkpoint before it."),
        (
            "restart",
            "same_hosts",
            {"damaged": [{"name": "7.pt", "changed": 1.0}]},
            "The job continues on the same hosts. Checkpoint 7.pt is damaged, so the job uses the checkpoint before it.",
        ),
        (
            "restart",
            "same_hosts",
            {"damaged": [{"name": name, "changed": 1.0} for name in ("7.pt", "6.pt")], "without_checkpoint": True},
            "The job continues on the same hosts. Checkpoints 7.pt, 6.pt are damaged, so no complete checkpoint is left, and the script "
            "may start over.",
        ),
        ("stop", "launcher", {"refusal": "one host"}, "The launcher cannot run the job on the remaining hosts: one host"),
        ("stop", "launcher", {}, "The launcher cannot run the job on the remaining hosts: "),
        ("stop", "no_restarts_left", {"restarts": 2}, USED_UP),
        ("stop", "no_restarts_left", {}, "training_job_restarts is 0, so a job is not restarted."),
        ("stop", "too_few_hosts", {"missing": ["w3"]}, "w3 cannot be used, and the job needs 0 hosts (training_job_min_hosts)."),
        ("restart", "fewer_hosts", {}, "The job continues without ."),
        (
            "restart",
            "spare_host",
            {"missing": ["w1", "w5"], "replacements": ["w4"], "hosts": ["w2", "w3", "w4", "w6"], "standby": ["w6"]},
            "w1, w5 cannot be used, so the job continues with spare w4.",
        ),
        ("restart", "spare_host", {"replacements": ["w4"]}, " cannot be used, so the job continues with spare ."),
        ("stop", "stop_exit_code", {"cause": {**CAUSE, "exit_code": 9}}, "Exit status 9 is in training_job_stop_exit_codes."),
        (
            "stop",
            "same_error",
            {"cause": {"kind": "not_started", "what": "no such file"}},
            "The same error ended attempts 2 and 3, with no new checkpoint in between.",
        ),
        (
            "stop",
            "certain_error",
            {"cause": {**CAUSE, "what": "an error"}},
            "The same error would end each attempt. Correct the script.",
        ),
        (
            "stop",
            "certain_error",
            {"cause": {**CAUSE, "what": "wrong arguments", "name": "usage"}},
            "The same error would end each attempt. Correct training_job_arguments.",
        ),
        (
            "stop",
            "certain_error",
            {"cause": {**CAUSE, "name": "certain"}},
            "The same error would end each attempt. Its message says what to change.",
        ),
        ("stop", "certain_error", {}, "The same error would end each attempt. Correct the script."),
        (
            "restart",
            "ask_for_replacement",
            {"cause": {"kind": "health", "what": "Xid 79", "name": "replace"}, "missing": ["w2"]},
            "The job continues without w2.",
        ),
        ("restart", "after_reboot", {**READ_ONLY, "reboots": True}, "w1 has been rebooted, and the job continues on the same hosts."),
        (
            "restart",
            "after_reboot",
            READ_ONLY,
            "The checks after the failure did not find this again, and the job continues on the same hosts.",
        ),
        (
            "stop",
            "too_few_hosts",
            {"missing": ["w2"], "min_hosts": 2, "excluded": ["w2"]},
            "w2 cannot be used, and the job needs 2 hosts (training_job_min_hosts). w2 is excluded from jobs. To see the commands, run "
            "deeplearning.cluster.health.",
        ),
    ],
)
def test_a_decision_says_what_the_file_says_about_the_situation(action, rule, found, sentence):
    assert explanations.explain({**DECISION, "action": action, "rule": rule, **found}, 3) == sentence


def test_the_cause_of_a_failure_as_the_rules_see_it():
    cause = {"kind": "signal", "what": "SIGSEGV", "name": "SIGSEGV", "exit_code": 139}
    assert explanations.recovery_cause(cause, "w1") == failure_causes.Cause("signal", "SIGSEGV", "w1", 139, "SIGSEGV")
    assert explanations.recovery_cause({}, "") == failure_causes.Cause(failure_causes.KILLED, "", "", None, "")
    full = {"path": "/ckpt", "problem": "space", "free": 0, "size": 1 << 30, "shared": False}
    assert explanations.recovery_cause({"storage": [{**full, "more": 1}]}, "w1").storage == (StorageProblem("/ckpt", "space", 0, 1 << 30),)


@pytest.mark.parametrize(
    "cause",
    [
        {"kind": "script_error", "what": "RuntimeError at train.py, line 3", "name": "RuntimeError", "message": "Connection reset by peer"},
        {"kind": "signal", "what": "signal SIGABRT", "name": "SIGABRT", "message": "[gloo] Connection closed by peer"},
    ],
)
def test_a_connection_that_was_closed_twice_for_no_known_reason_costs_no_checkpoint_and_no_host(cause):
    found = explanations.recovery_cause(cause, "w1")
    assert (found.kind, found.host, found.what) == (failure_causes.NETWORK, "", cause["what"])
    attempts = [recovery.FailedAttempt(found, False)] * 2
    policy = recovery.RestartPolicy(restarts=3, min_hosts=1)
    decision = recovery.decide(recovery.Situation(attempts, ["w1", "w2"], ["w1", "w2"], policy, "epoch-2", has_older=True))
    assert (decision.rule, decision.set_aside, decision.hosts) == ("same_hosts", "", ["w1", "w2"])
    own = explanations.recovery_cause({**cause, "message": "index out of range"}, "w1")
    assert (own.kind, own.host) == (cause["kind"], "w1")


@pytest.mark.parametrize(
    ("end", "cause", "problems", "sentence"),
    [
        (
            {"exit_code": 1},
            {"what": "RuntimeError at fit.py, line 33", "message": ". unexpected pos 704 vs 598"},
            [("/ckpt", "space", 512, 150 << 10)],
            "ended with exit status 1 (RuntimeError at fit.py, line 33: . unexpected pos 704 vs 598) while /ckpt was full (512 bytes of "
            "150 KiB free)",
        ),
        (
            {"exit_code": 3},
            {"what": "exit status 3"},
            [("/ckpt", "inodes", 1, 2), ("/tmp", "read_only", 1, 2)],
            "ended with exit status 3 while /ckpt had no free inodes and /tmp was mounted read-only",
        ),
        (
            {"signal": "SIGBUS"},
            {"what": "signal SIGBUS"},
            [("/dev/shm", "space", 3 << 20, 5 << 40)],
            "was killed by signal SIGBUS while /dev/shm was full (3 MiB of 5120 GiB free)",
        ),
        (
            {"exit_code": 1},
            {"what": "OSError at fit.py, line 3"},
            [("/fsx", "quota", 1, 2)],
            "ended with exit status 1 (OSError at fit.py, line 3) while /fsx had no space left within the user's disk quota",
        ),
        ({"exit_code": 1}, {"what": "OSError at fit.py, line 3"}, [], "ended with exit status 1 (OSError at fit.py, line 3)"),
    ],
)
def test_a_failure_names_the_storage_to_which_the_job_could_not_write(job, end, cause, problems, sentence):
    storage = [StorageProblem(*each)._asdict() for each in problems]
    found = {**ENDED, "state": "failed", **end, "cause": {"kind": "disk_full", **cause, "storage": storage}}
    write(job.record("rank0"), found)
    assert explanations.describe_failure(records.read_record(job.record("rank0"))) == f"rank 0 on w1 {sentence}"


def test_the_sentence_about_a_failure_names_the_scripts_line():
    failed = {**ENDED, "exit_code": 1, "cause": {"kind": "script_error", "what": "ValueError at train.py, line 3", "message": "no"}}
    assert explanations.describe_failure(failed) == "rank 0 on w1 ended with exit status 1 (ValueError at train.py, line 3: no)"
    del failed["cause"]["message"]
    assert explanations.describe_failure(failed) == "rank 0 on w1 ended with exit status 1 (ValueError at train.py, line 3)"


def test_the_sentence_about_a_time_out_names_the_collective_operation():
    failed = {**ENDED, "signal": "SIGABRT", "cause": TIMED_OUT}
    sentence = "rank 0 on w1 was killed by signal SIGABRT (a time-out of ALLREDUCE with SeqNum 57: [Rank 0] Watchdog caught ...)"
    assert explanations.describe_failure(failed) == sentence
    hung = {
        **ENDED,
        "reason": "made no progress for 9 s (it is at a.py, line 3)",
        "cause": {"kind": "hang", "what": "a hang at a.py, line 3"},
    }
    assert explanations.describe_failure(hung) == "rank 0 on w1 made no progress for 9 s (it is at a.py, line 3)"


def test_the_sentence_about_a_health_finding_is_about_the_host_and_not_about_a_process():
    failed = {**ENDED, "exit_code": 1, "cause": {"kind": "health", "what": "GPU 0000:64:00: Xid 79"}}
    assert explanations.describe_failure(failed) == "health finding on w1: GPU 0000:64:00: Xid 79"


def test_the_sentence_about_a_killed_process_says_that_the_kernel_has_not_killed_it_for_its_memory():
    killed = {**ENDED, "signal": "SIGKILL", "cause": {**killed_by("SIGKILL"), "message": failure_causes.NOT_BY_OOM_KILLER}}
    assert explanations.describe_failure(killed) == "rank 0 on w1 was killed by signal SIGKILL (not by the kernel's OOM killer)"


@pytest.mark.parametrize(
    ("kind", "what", "alone", "tagged"),
    [
        ("exit_status", "exit status 1", "ended with exit status 1", "ended with exit status 1"),
        ("exit_status", "exit status 3", "ended with exit status 3", "ended with exit status 1 (exit status 3 of a rank)"),
        ("signal", "signal SIGKILL", "was killed by signal SIGKILL", "ended with exit status 1 (signal SIGKILL of a rank)"),
        ("hang", "signal SIGKILL", "ended with exit status 1", "ended with exit status 1"),
        ("signal", "", "ended with exit status 1", "ended with exit status 1"),
    ],
)
def test_the_sentence_about_a_failure_says_how_the_script_ended(kind, what, alone, tagged):
    """If a launcher tags the output of ranks, the exit status is the launcher's, so the sentence also says how a rank ended."""
    failed = {**ENDED, "exit_code": 1, "cause": {"kind": kind, "what": what}}
    assert explanations.describe_failure(failed) == f"rank 0 on w1 {alone}"
    assert explanations.describe_failure({**failed, "tagged": True}) == f"rank 0 on w1 {tagged}"
