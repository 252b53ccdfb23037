"""Tests of the sentences about the ends of processes and attempts."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import recovery
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.document_schemas import SENTENCE_LIMIT
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.storage_problems import StorageProblem
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import attempt_messages

ENDED = {"name": "rank0", "ranks": [0], "host": "w1", "state": "failed", "heartbeat": 1000.0, "tag": ""}
CAUSE = {"kind": "exit_status", "what": "exit status 1"}
ERROR = {"kind": "script_error", "what": "ValueError at train.py, line 42", "name": "ValueError"}
KILLED = {"kind": "signal", "what": "signal SIGKILL", "name": "SIGKILL"}
UNTIL = 1767225600.0
MEMORY = "after the kernel's OOM killer had killed one of its processes"
OPERATOR = "was stopped by an operator (for example with stop.yml)"
SPOT = "was stopped because of the spot interruption of the host, which AWS announced for 2026-01-01 00:00:00 UTC"
OTHERS = [
    {**ENDED, "name": "rank1", "host": "w2", "exit_code": 3},
    {**ENDED, "name": "rank2", "host": "w3", "state": "running", "heartbeat": UNTIL},
    {**ENDED, "name": "rank3", "host": "w4", "state": "stopped", "stopped_for": "rank3", "heartbeat": UNTIL},
    {**ENDED, "name": "rank4", "host": "w5", "state": "running", "cause": {"kind": "spot_interruption", "deadline": UNTIL}},
]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"exit_code": 3}, "ended with exit status 3"),
        ({"signal": "SIGKILL"}, "was killed by signal SIGKILL"),
        ({"signal": "SIGKILL", "oom_kills": 1}, f"was killed by signal SIGKILL {MEMORY}"),
        ({"state": "succeeded", "exit_code": 0, "oom_kills": 2}, f"ended with exit status 0 {MEMORY}"),
        ({"state": "succeeded", "exit_code": 0, "oom_kills": 0}, "ended with exit status 0"),
        ({"state": "succeeded", "signal": "SIGTERM"}, "ended with the job"),
        ({"state": "stopped", "signal": "SIGTERM"}, OPERATOR),
        ({"state": "stopped", "stopped_for": "rank1"}, "was stopped because rank 1 on w2 ended with exit status 3"),
        (
            {"state": "stopped", "stopped_for": "rank2"},
            "was stopped because rank 2 on w3 has sent no heartbeat since 2026-01-01 00:00:00 UTC",
        ),
        (
            {"state": "stopped", "stopped_for": "rank3"},
            "was stopped because rank 3 on w4 has sent no heartbeat since 2026-01-01 00:00:00 UTC",
        ),
        ({"state": "stopped", "stopped_for": "rank4"}, f"was stopped because rank 4 on w5 {SPOT}"),
        ({"state": "stopped", "stopped_for": "rank9"}, "was stopped because rank 9 has sent no heartbeat"),
        ({"cause": {"kind": "time_limit", "limit": 5}, "signal": "SIGTERM"}, "reached its time limit of 5 s"),
        ({"cause": {"kind": "time_limit", "limit": 5, "cost": {"limit": 1.0}}}, "reached training_job_max_cost"),
        ({"cause": {"kind": "host_shut_down"}}, "was stopped because its host was shutting down"),
        ({"cause": {"kind": "killed", "what": "oom-kill (KILL)"}}, "was killed by the system: oom-kill (KILL)"),
        ({"cause": {"kind": "health", "what": "Xid 79"}}, "was stopped because of a health finding on its host: Xid 79"),
        (
            {"cause": {"kind": "not_started", "what": "No such file or directory: 'x'"}, "exit_code": 127},
            "could not be started: No such file or directory: 'x'",
        ),
        (
            {"cause": {"kind": "spot_interruption", "deadline": UNTIL}},
            SPOT,
        ),
        (
            {"cause": {"kind": "capacity_block_end", "deadline": UNTIL}},
            "was stopped because of the end of the host's Capacity Block, whose instances AWS terminates from 2026-01-01 00:00:00 UTC",
        ),
        (
            {"cause": {"kind": "lease_end", "deadline": UNTIL}},
            "was stopped because of the end of the lease of the nodes, which AWS terminates at 2026-01-01 00:00:00 UTC",
        ),
        (
            {"cause": {"kind": "hang", "hang": {"seconds": 9.4, "median": 2.0, "lock": "/root/lock"}}},
            "made no progress for 9 s, with a median step of 2 s, while no process has the lock file '/root/lock' open",
        ),
        (
            {"cause": {"kind": "hang", "hang": {"seconds": 9.4, "median": 2.0, "lock": "/" + "x" * 200}}},
            "made no progress for 9 s, with a median step of 2 s",
        ),
        ({"cause": None, "exit_code": 1}, "ended with exit status 1"),
        ({"state": "lost", "heartbeat": UNTIL + 0.5}, "has sent no heartbeat since 2026-01-01 00:00:00 UTC"),
        ({"state": "lost", "heartbeat": UNTIL + 300.0}, "has sent no heartbeat since 2026-01-01 00:05:00 UTC"),
        ({"state": "lost", "heartbeat": UNTIL + 300.5}, "has a heartbeat time in the future, 2026-01-01 00:05:00 UTC"),
    ],
)
def test_how_a_process_ended(monkeypatch, record, words):
    monkeypatch.setattr(attempt_messages.time, "time", lambda: UNTIL)
    process = {**ENDED, **record}
    assert attempt_messages.describe_end(process, attempt_messages.ends([process, *OTHERS])) == words


def test_a_reason_is_short_whatever_a_host_returns():
    failed = {**ENDED, "name": "rank1", "cause": {"kind": "killed", "what": "A" * (1 << 20)}}
    stopped = {**ENDED, "state": "stopped", "stopped_for": "rank1"}
    assert len(attempt_messages.reason(failed)) == SENTENCE_LIMIT
    assert len(attempt_messages.describe_end(stopped, attempt_messages.ends([failed, stopped]))) == SENTENCE_LIMIT


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ({"exit_code": 1}, "ended with exit status 1"),
        ({"exit_code": 1, "culprit": {"rank": "3", "signal": "SIGKILL"}}, "was killed by signal SIGKILL"),
        ({"exit_code": 1, "culprit": {"rank": "3", "signal": "SIGKILL"}, "oom_kills": 1}, f"was killed by signal SIGKILL {MEMORY}"),
        (
            {"exit_code": 1, "culprit": {"rank": "3", "exit_code": 2}, "tag": "[rank {}] "},
            "ended with exit status 1, because rank 3 ended with exit status 2",
        ),
        (
            {"exit_code": 1, "culprit": {"rank": "3", "signal": "SIGKILL"}, "tag": "[rank {}] ", "oom_kills": 1},
            f"ended with exit status 1 {MEMORY}, because rank 3 was killed by signal SIGKILL",
        ),
        (
            {"exit_code": 1, "culprit": {"rank": "3", "signal": "SIGKILL"}, "tag": "[rank {}] ", "oom_kills": 0, "cause": KILLED},
            "ended with exit status 1, because rank 3 was killed by signal SIGKILL (not by the kernel's OOM killer)",
        ),
        (
            {"state": "lost", "culprit": {"rank": "1", "signal": "SIGSEGV"}, "tag": "[rank {}] "},
            "has sent no heartbeat since 1970-01-01 00:16:40 UTC, because rank 1 was killed by signal SIGSEGV",
        ),
        ({"state": "lost", "culprit": {"rank": "1", "signal": "SIGSEGV"}}, "was killed by signal SIGSEGV"),
        ({"state": "lost"}, "has sent no heartbeat since 1970-01-01 00:16:40 UTC"),
        ({"state": "stopped", "signal": "SIGTERM"}, OPERATOR),
        ({"exit_code": 1, "cause": {"kind": "time_limit", "limit": 5}}, "reached its time limit of 5 s"),
    ],
)
def test_how_the_process_ended_that_made_a_job_fail(failure, words):
    assert attempt_messages.describe_failure({**ENDED, **failure}) == words


def test_each_rule_has_words():
    assert attempt_messages.WORDS.keys() == {recovery.CONTINUED, *(rule.name for rule in recovery.TABLE)}


def explain(action, rule, attempt=3, **found):
    return attempt_messages.explain({"attempt": attempt, "action": action, "rule": rule, **found})


@pytest.mark.parametrize(
    ("action", "rule"), [("stop", "same_hosts"), ("stop", "continued"), ("restart", "operator"), ("restart", "no" * 30)]
)
def test_a_forged_decision_is_not_explained(action, rule):
    assert explain(action, rule) == f"The recorded decision names an unknown rule ({rule[:40]})."


def test_an_attempt_without_a_decision_is_not_explained():
    assert attempt_messages.explain({"attempt": 1, "state": "running"}) == ""
    assert attempt_messages.attempt_cause({"attempt": 1, "state": "running"}) == ""


USED_UP = (
    "training_job_restarts is {} ended without a new checkpoint. Correct the cause, save checkpoints more often, or increase "
    "training_job_restarts."
)
HEALTH = "To see the commands, run deeplearning.cluster.health."
XID = {"cause": {"kind": "health", "what": "Xid 79", "name": "replace"}, "failure": {**ENDED, "host": "w2"}}
READ_ONLY = {"cause": {"kind": "health", "what": "/: is read-only", "name": "reboot"}, "failure": {**ENDED, "host": "w2"}}
SAME = "The same error ended attempts 2 and 3, with no new checkpoint in between."
CERTAIN = "The same error would end each attempt."
MANY = [f"w{number}" for number in range(300)]


@pytest.mark.parametrize(
    ("action", "rule", "found", "sentence"),
    [
        ("stop", "operator", {}, "An operator stopped the job."),
        ("restart", "continued", {}, "The job was started again with the same name."),
        ("stop", "time_limit", {}, "The job reached training_job_time_limit or training_job_max_cost."),
        (
            "stop",
            "time_limit",
            {"cause": {"kind": "lease_end"}},
            "AWS terminates the nodes at the end of their lease. Start nodes with a new lease, and then continue the job.",
        ),
        (
            "stop",
            "too_many_attempts",
            {},
            "A job has at most 1024 attempts. To continue, start a new job with training_job_resume.",
        ),
        ("restart", "suspect_host", {"failure": ENDED}, "Attempts 2 and 3 failed on w1, so the job continues without this host."),
        ("restart", "suspect_host", {}, "Attempts 2 and 3 failed on , so the job continues without this host."),
        (
            "restart",
            "suspect_host",
            {"failure": ENDED, "cause": {**ERROR, "name": "ImportError"}},
            "Only w1 had this error, so the job continues without this host.",
        ),
        (
            "restart",
            "suspect_host_and_checkpoint",
            {"failure": ENDED, "set_aside": "30"},
            "Attempts 2 and 3 failed on w1 after checkpoint 30, so the job continues without this host, and uses the checkpoint before it.",
        ),
        (
            "restart",
            "suspect_checkpoint",
            {"set_aside": "7.pt"},
            "Attempts 2 and 3 failed after checkpoint 7.pt, so the job uses the checkpoint before it.",
        ),
        ("restart", "suspect_checkpoint", {}, "Attempts 2 and 3 failed after checkpoint , so the job uses the checkpoint before it."),
        (
            "restart",
            "same_hosts",
            {"damaged": ["7.pt"]},
            "The job continues on the same hosts. Checkpoint 7.pt is damaged, so the job uses the checkpoint before it.",
        ),
        (
            "restart",
            "same_hosts",
            {"damaged": ["7.pt", "6.pt"]},
            "The job continues on the same hosts. Checkpoints 7.pt, 6.pt are damaged, so the job uses the checkpoint before them.",
        ),
        (
            "restart",
            "same_hosts",
            {"damaged": ["7.pt", "6.pt"], "without_checkpoint": True},
            "The job continues on the same hosts. Checkpoints 7.pt, 6.pt are damaged, so no complete checkpoint is left, and the script "
            "may start over.",
        ),
        ("stop", "launcher", {"refusal": "one host"}, "The launcher cannot run the job on the remaining hosts: one host"),
        ("stop", "launcher", {"refusal": "x" * 999}, f"The launcher cannot run the job on the remaining hosts: {'x' * 300}"),
        ("stop", "launcher", {}, "The launcher cannot run the job on the remaining hosts: "),
        ("stop", "no_restarts_left", {"restarts": 1}, USED_UP.format("1, and the last restart")),
        ("stop", "no_restarts_left", {"restarts": 2}, USED_UP.format("2, and each of the last 2 restarts")),
        ("stop", "no_restarts_left", {}, "training_job_restarts is 0, so a job is not restarted."),
        ("stop", "too_few_hosts", {"missing": ["w3"]}, "w3 cannot be used, and the job needs 0 hosts (training_job_min_hosts)."),
        (
            "stop",
            "too_few_hosts",
            {"missing": ["w2"], "min_hosts": 2, "excluded": ["w2"]},
            f"w2 cannot be used, and the job needs 2 hosts (training_job_min_hosts). w2 is excluded from jobs. {HEALTH}",
        ),
        (
            "stop",
            "too_few_hosts",
            {"missing": ["w2"], "min_hosts": 1},
            "w2 cannot be used, and the job needs 1 host (training_job_min_hosts).",
        ),
        ("stop", "too_few_hosts", {"min_hosts": 3}, "The job needs 3 hosts (training_job_min_hosts)."),
        ("restart", "spare_host", {"replacements": ["w4"]}, "The job continues with spare w4."),
        ("restart", "fewer_hosts", {}, "The job continues without ."),
        ("restart", "fewer_hosts", {"missing": MANY}, "The job continues without w0, w1, w2 and 297 more hosts."),
        (
            "restart",
            "fewer_hosts",
            {"missing": ["w1", "w3"], "excluded": ["w1", "w3"]},
            f"The job continues without w1, w3. w1, w3 are excluded from jobs. {HEALTH}",
        ),
        (
            "restart",
            "spare_host",
            {"missing": ["w1", "w5"], "replacements": ["w4"]},
            "w1, w5 cannot be used, so the job continues with spare w4.",
        ),
        ("stop", "stop_exit_code", {"cause": {**CAUSE, "exit_code": 9}}, "Exit status 9 is in training_job_stop_exit_codes."),
        ("restart", "restart_exit_code", {"cause": {**CAUSE, "exit_code": 9}}, "Exit status 9 is in training_job_restart_exit_codes."),
        ("stop", "same_error", {"cause": {"kind": "not_started", "what": "no such file"}}, SAME),
        ("stop", "same_error", {"cause": ERROR}, f"{SAME} Correct line 42 of train.py or its data."),
        ("stop", "same_error", {"cause": CAUSE}, f"{SAME} Correct the script or its data."),
        ("stop", "same_error", {"cause": {**ERROR, "kind": "gpu_memory"}}, f"{SAME} Reduce the batch size, or use GPUs with more memory."),
        ("stop", "certain_error", {"cause": ERROR}, f"{CERTAIN} Correct line 42 of train.py."),
        ("stop", "certain_error", {"cause": {**ERROR, "name": "usage"}}, f"{CERTAIN} Correct training_job_arguments."),
        ("stop", "certain_error", {"cause": {**ERROR, "name": "certain"}}, f"{CERTAIN} Its message says what to change."),
        ("stop", "certain_error", {"cause": {**ERROR, "name": "ModuleNotFoundError"}}, CERTAIN),
        ("stop", "certain_error", {}, f"{CERTAIN} Correct the script."),
        (
            "stop",
            "error_came_back",
            {"cause": {**KILLED, "what": "signal SIGABRT at train.py, line 9"}},
            "Signal SIGABRT at train.py, line 9 occurred again after a restart from an older checkpoint. Correct the script or its data.",
        ),
        (
            "stop",
            "same_hang",
            {"cause": {"kind": "hang", "what": "a hang at train.py, line 12"}},
            "A hang at train.py, line 12 ended 3 attempts in a row, with no new checkpoint in between. Correct the script or its data.",
        ),
        ("restart", "ask_for_replacement", {**XID, "missing": ["w2"]}, f"The job continues without w2. w2 should be replaced. {HEALTH}"),
        (
            "restart",
            "ask_for_replacement",
            {**XID, "missing": ["w2"], "replacements": ["w4"]},
            f"The job continues with spare w4 in place of w2. w2 should be replaced. {HEALTH}",
        ),
        ("restart", "after_reboot", {**READ_ONLY, "missing": ["w2"]}, f"The job continues without w2. w2 must be rebooted. {HEALTH}"),
        ("restart", "after_reboot", {**READ_ONLY, "reboots": True}, "w2 has been rebooted, and the job continues on the same hosts."),
        (
            "restart",
            "after_reboot",
            READ_ONLY,
            "The checks after the failure did not find this again, and the job continues on the same hosts.",
        ),
        (
            "restart",
            "after_reboot",
            {**READ_ONLY, "reboots": True, "missing": ["w2", "w3"], "excluded": ["w2", "w3"]},
            f"The job continues without w2, w3. w2 reboots itself, and w3 is excluded from jobs. {HEALTH}",
        ),
    ],
)
def test_a_decision_is_explained_with_what_the_host_says_about_the_situation(action, rule, found, sentence):
    assert explain(action, rule, **found) == sentence


@pytest.mark.parametrize(
    ("problems", "repair"),
    [
        ([], "Free space on the storage to which the script writes."),
        ([("/ckpt", "space")], "Free space in /ckpt on w1."),
        ([("/fsx/ckpt", "space", 0, 9, True)], "Free space in /fsx/ckpt."),
        ([("/ckpt", "inodes")], "Delete files in /ckpt on w1."),
        ([("/ckpt", "quota", 0, 9, True)], "Delete the user's files in /ckpt, or increase the quota."),
        ([("/ckpt", "read_only")], "Find out why /ckpt on w1 is mounted read-only."),
    ],
)
def test_the_message_about_full_storage_says_what_to_do(problems, repair):
    cause = {**ERROR, "kind": "disk_full", "storage": [StorageProblem(*each)._asdict() for each in problems]}
    why = f"The storage ended attempts 2 and 3, with no new checkpoint in between. {repair} Then run the same command again."
    assert explain("stop", "full_storage", cause=cause, failure=ENDED) == why


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
def test_the_cause_names_the_storage_to_which_the_job_could_not_write(end, cause, problems, sentence):
    storage = [StorageProblem(*each)._asdict() for each in problems]
    found = {**ENDED, **end, "cause": {"kind": "disk_full", **cause, "storage": storage}}
    assert attempt_messages.attempt_cause({"failure": found}) == f"rank 0 on w1 {sentence}"


@pytest.mark.parametrize(
    ("failure", "cause", "sentence"),
    [
        ({"exit_code": 1}, {**ERROR, "message": "no"}, "ended with exit status 1 (ValueError at train.py, line 42: no)"),
        ({"exit_code": 1}, ERROR, "ended with exit status 1 (ValueError at train.py, line 42)"),
        (
            {"exit_code": 1},
            {**ERROR, "message": "in use", "listener": "process 7 'nc'", "port": 29500},
            "ended with exit status 1 (ValueError at train.py, line 42: in use (process 7 'nc' listens on port 29500))",
        ),
        (
            {"signal": "SIGABRT"},
            {"kind": "hang", "what": "a time-out of ALLREDUCE with SeqNum 57", "message": "Watchdog"},
            "was killed by signal SIGABRT (a time-out of ALLREDUCE with SeqNum 57: Watchdog)",
        ),
        (
            {"cause": {"kind": "hang", "hang": {"seconds": 9.0}}},
            {"kind": "hang", "what": "a hang at a.py, line 3"},
            "made no progress for 9 s, with no output, reported step or checkpoint",
        ),
        ({"signal": "SIGKILL", "oom_kills": 0}, KILLED, "was killed by signal SIGKILL (not by the kernel's OOM killer)"),
        ({"exit_code": 1, "oom_kills": 0}, CAUSE, "ended with exit status 1"),
        (
            {"exit_code": 1, "cause": {**ERROR, "message": "x" * 2000}},
            None,
            f"ended with exit status 1 (ValueError at train.py, line 42: {'x' * 928}",
        ),
    ],
)
def test_the_cause_of_an_attempt(failure, cause, sentence):
    found = attempt_messages.attempt_cause({"failure": {**ENDED, **failure}, "cause": cause})
    assert found == f"rank 0 on w1 {sentence}"


def test_a_health_finding_is_about_the_host_and_not_about_a_process():
    found = {"failure": {**ENDED, "exit_code": 1}, "cause": {"kind": "health", "what": "GPU 0000:64:00: Xid 79"}}
    assert attempt_messages.attempt_cause(found) == "health finding on w1: GPU 0000:64:00: Xid 79"


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
def test_the_cause_says_how_the_script_ended(kind, what, alone, tagged):
    """If a launcher tags the output of ranks, the exit status is the launcher's, so the sentence also says how a rank ended."""
    failed = {**ENDED, "exit_code": 1, "cause": {"kind": kind, "what": what}}
    assert attempt_messages.attempt_cause({"failure": failed}) == f"rank 0 on w1 {alone}"
    assert attempt_messages.attempt_cause({"failure": {**failed, "tag": "[rank {}] "}}) == f"rank 0 on w1 {tagged}"
