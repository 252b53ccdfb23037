"""Tests of the decision table: what follows a failed attempt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import failure_causes, recovery
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.failure_causes import Cause
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.recovery import FailedAttempt, RestartPolicy, Situation
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.storage_problems import StorageProblem

DOCS = Path(__file__).resolve().parents[5] / "docs/recovery.md"

ERROR = Cause(failure_causes.SCRIPT_ERROR, "ValueError at train.py, line 42", "w2", 1, "ValueError")
OTHER_LINE = ERROR._replace(what="ValueError at train.py, line 50")
ARGUMENTS = Cause(failure_causes.SCRIPT_ERROR, "wrong arguments", "w1", 2, failure_causes.USAGE)
SYNTAX = Cause(failure_causes.SCRIPT_ERROR, "SyntaxError at train.py, line 3", "w1", 1, "SyntaxError")
NO_MODULE = Cause(failure_causes.SCRIPT_ERROR, "ModuleNotFoundError at train.py, line 1", "w1", 1, "ModuleNotFoundError")
EXIT = Cause(failure_causes.EXIT_STATUS, "exit status 3", "w2", 3)
KILL = Cause(failure_causes.SIGNAL, "signal SIGKILL", "w2", None, "SIGKILL")
CRASH = Cause(failure_causes.SIGNAL, "signal SIGSEGV", "w2", None, "SIGSEGV")
FULL = Cause(failure_causes.DISK_FULL, "OSError at train.py, line 9", "w2", 1, "OSError")
CHECKPOINTS = StorageProblem("/ckpt", "space", 0, 150 << 10)
FULL_SAVE = Cause(failure_causes.DISK_FULL, "RuntimeError at fit.py, line 33", "w2", 1, "RuntimeError", [CHECKPOINTS])
FULL_LOAD = FULL_SAVE._replace(what="RuntimeError at fit.py, line 12")
SHARED = FULL_SAVE._replace(storage=[CHECKPOINTS._replace(path="/fsx/ckpt", shared=True)])
MEMORY = Cause(failure_causes.OUT_OF_MEMORY, "an out-of-memory error", "w3")
LOST = Cause(failure_causes.HOST_LOST, host="w2")
HANG = Cause(failure_causes.HANG, "a hang at train.py, line 12", "w2", None, "rank 1")
NO_DATA = Cause(failure_causes.NETWORK, host="w2")
ALL_HANG = HANG._replace(name="")
XID = Cause(failure_causes.HEALTH, "GPU 0000:64:00: Xid 79", "w2", None, failure_causes.REPLACE)
READ_ONLY = Cause(failure_causes.HEALTH, "/: is read-only", "w2", None, failure_causes.REBOOT)
GPU_MEMORY = Cause(failure_causes.GPU_MEMORY, "OutOfMemoryError at train.py, line 42", "w2", 1, "OutOfMemoryError")
HARDWARE = Cause(failure_causes.HARDWARE, "AcceleratorError at train.py, line 42", "w2", 1, "AcceleratorError")
ONLY_HERE = ERROR._replace(alone=True)
IMPORT = Cause(failure_causes.SCRIPT_ERROR, "ImportError at train.py, line 1", "w2", 1, "ImportError", alone=True)
LIMIT = Cause(failure_causes.TIME_LIMIT, host="w1")
OPERATOR = Cause(failure_causes.OPERATOR, host="w1")
ABORT = Cause(failure_causes.SIGNAL, "signal SIGABRT at train.py, line 9", "w2", None, "SIGABRT")
SPOT = Cause(failure_causes.SPOT_INTERRUPTION, host="w2")
BLOCK = Cause(failure_causes.CAPACITY_BLOCK_END, host="w2")
CERTAIN = ERROR._replace(name=failure_causes.CERTAIN)
MISSING_PROGRAM = Cause(failure_causes.NOT_STARTED, "could not be started", "w2", 127)
ELSEWHERE = HANG._replace(what="a hang at train.py, line 20")
HOSTS = ("w1", "w2", "w3")


def at(host, cause):
    return cause._replace(host=host)


def progressed(cause):
    return FailedAttempt(cause, progress=True)


def set_aside(cause, name="4"):
    return FailedAttempt(cause, progress=False, set_aside=name)


# Options of `decide`.
SAVED = {"checkpoint": "4", "has_older": True}
TWO = {"policy": RestartPolicy(3, 2)}
LEFT = {"available": ["w1", "w3"]}
FOUR = {"hosts": [*HOSTS, "w4"], "available": [*HOSTS, "w4"], "spares": 1}
SPARE = {**FOUR, "available": ["w1", "w3", "w4"]}


def decide(attempts, **options):
    """Return the decision after the `attempts`. Each of them is a FailedAttempt, or the cause of a failure without progress."""
    made = [attempt if isinstance(attempt, FailedAttempt) else FailedAttempt(attempt, progress=False) for attempt in attempts]
    defaults = {"hosts": HOSTS, "available": HOSTS, "policy": RestartPolicy(3, 3), "checkpoint": "", "has_older": False}
    return recovery.decide(Situation(made, **{**defaults, **options}))


ACTIONS = {rule.name: rule.action for rule in recovery.TABLE}


@pytest.mark.parametrize(
    ("rule", "options", "cases"),
    [
        # What would fail again is stopped.
        ("operator", {}, [[OPERATOR]]),
        ("time_limit", {}, [[LIMIT]]),
        ("certain_error", {}, [[each] for each in (SYNTAX, ARGUMENTS, CERTAIN, NO_MODULE, IMPORT._replace(alone=False))]),
        ("certain_error", {}, [[ARGUMENTS._replace(alone=True)]]),
        ("same_error", {}, [[each] * 2 for each in (ERROR, EXIT, CRASH, MEMORY, GPU_MEMORY)]),
        ("same_error", {}, [[KILL, ERROR, ERROR], [KILL, EXIT, EXIT]]),
        ("no_restarts_left", {}, [[KILL] * 4, [ERROR, OTHER_LINE, ERROR, OTHER_LINE], [HARDWARE] * 4]),
        ("no_restarts_left", {}, [[KILL, KILL, KILL, progressed(KILL), KILL, KILL, KILL]]),
        ("no_restarts_left", {"policy": RestartPolicy(1, 3)}, [[KILL] * 2]),
        # What may succeed is started again.
        ("same_hosts", SAVED, [[each] for each in (ERROR, EXIT, KILL, CRASH, FULL, MEMORY)]),
        ("same_hosts", {}, [[ERROR, OTHER_LINE], [ERROR, progressed(ERROR)], [ERROR, progressed(ERROR), KILL], [KILL] * 3, [LOST] * 2]),
        ("same_hosts", {}, [[*[KILL] * 3, progressed(KILL), *[KILL] * 2], [progressed(ERROR)] * 20]),
        # Exit codes decide before everything else that concerns the script.
        ("stop_exit_code", {"policy": RestartPolicy(3, 3, [3], [])}, [[EXIT]]),
        ("restart_exit_code", {"policy": RestartPolicy(3, 3, [], [3])}, [[EXIT] * 3, [progressed(EXIT)] * (recovery.ATTEMPTS_LIMIT - 1)]),
        ("no_restarts_left", {"policy": RestartPolicy(3, 3, [], [3])}, [[EXIT] * 4]),
        # Attempt numbers beyond the limit would not be read, so the job would seem to have ended.
        ("too_many_attempts", {"policy": RestartPolicy(3, 3, [], [3])}, [[progressed(EXIT)] * recovery.ATTEMPTS_LIMIT]),
        # A job continues without hosts if enough are left. A host that cannot be used anyway is no suspect.
        ("too_few_hosts", LEFT, [[LOST], [SPOT], [BLOCK], [XID], [READ_ONLY]]),
        ("fewer_hosts", {**LEFT, **TWO}, [[LOST], [SPOT] * 9, [BLOCK] * 9]),
        ("fewer_hosts", {**LEFT, "policy": RestartPolicy(3, 1)}, [[KILL] * 2]),
        ("same_hosts", {"policy": RestartPolicy(3, 1)}, [[KILL, progressed(KILL)]]),
        ("spare_host", SPARE, [[SPOT] * 9, [BLOCK] * 9]),
        # A host on which the job fails twice is left out. An error of the script is no reason, unless only one host has it.
        ("suspect_host", TWO, [[IMPORT]]),
        ("suspect_host", TWO, [[FULL] * 2, [KILL, FULL], [FULL_SAVE] * 2, [HANG] * 2, [HANG, KILL], [HANG, NO_DATA]]),
        ("full_storage", TWO, [[FULL, at("w3", FULL)], [SHARED] * 2]),
        ("full_storage", {}, [[FULL] * 2]),
        ("same_error", TWO, [[ERROR] * 2]),
        ("same_hosts", TWO, [[ALL_HANG] * 2, [ALL_HANG, HANG]]),
        ("same_hosts", {}, [[NO_DATA] * 2]),
        ("suspect_host", FOUR, [[IMPORT], [KILL, IMPORT], [IMPORT, at("w3", IMPORT._replace(what="ImportError at train.py, line 2"))]]),
        ("suspect_host", FOUR, [[ONLY_HERE] * 2, [ONLY_HERE, EXIT._replace(alone=True)], [GPU_MEMORY._replace(alone=True)] * 2]),
        ("suspect_host", FOUR, [[HARDWARE] * 2, [KILL, HARDWARE], [KILL] * 2]),
        ("certain_error", FOUR, [[IMPORT._replace(alone=False)], [ARGUMENTS._replace(alone=True)], [IMPORT, at("w3", IMPORT)]]),
        ("certain_error", FOUR, [[IMPORT, at("w3", IMPORT._replace(alone=False))]]),
        ("same_hosts", FOUR, [[ONLY_HERE], [ONLY_HERE, progressed(ONLY_HERE)], [HARDWARE]]),
        ("same_error", FOUR, [[ERROR, ONLY_HERE], [ONLY_HERE, ERROR], [ONLY_HERE, at("w3", ONLY_HERE)]]),
        ("same_error", FOUR, [[ONLY_HERE, ONLY_HERE, at("w3", ONLY_HERE)]]),
        # Health findings and hardware are no evidence against the script or a checkpoint.
        ("ask_for_replacement", {**LEFT, **TWO, **SAVED}, [[XID] * 2]),
        # A finding that ended the attempt while the job was running can have passed when the checks run after the failure.
        *(
            (rule, options, [[cause]])
            for rule, cause in (("after_reboot", READ_ONLY), ("ask_for_replacement", XID))
            for options in ({**LEFT, **TWO}, SPARE, {})
        ),
        ("no_restarts_left", {**LEFT, **TWO}, [[XID] * 4, [READ_ONLY] * 4]),
        ("same_hosts", SAVED, [[HARDWARE] * 2, [ERROR, HARDWARE]]),
        # A checkpoint after which the job dies twice is set aside. A signal from outside proves nothing.
        ("suspect_checkpoint", SAVED, [[KILL, ERROR], [ERROR] * 2, [FULL_SAVE, ERROR], [ONLY_HERE] * 2]),
        ("same_error", {"checkpoint": "4"}, [[ERROR] * 2]),
        ("same_hosts", SAVED, [[ERROR, KILL], [ERROR, progressed(ERROR)]]),
        # Full storage or a missing program is not the fault of a checkpoint. Full storage ends a job if a restart has not freed it.
        ("same_hosts", SAVED, [[progressed(KILL), each] for each in (FULL, GPU_MEMORY, MISSING_PROGRAM)]),
        ("same_error", SAVED, [[progressed(each), each] for each in (GPU_MEMORY, MISSING_PROGRAM)]),
        ("full_storage", SAVED, [[progressed(FULL), FULL], [FULL_SAVE, FULL_LOAD], [progressed(FULL_SAVE), FULL_LOAD]]),
        ("full_storage", SAVED, [[SHARED, at("w3", SHARED._replace(what="OSError at fit.py, line 1"))]]),
        ("same_hosts", SAVED, [[FULL_SAVE], [FULL_SAVE, progressed(FULL_SAVE)], [ERROR, FULL_SAVE], [FULL_SAVE, at("w3", FULL_LOAD)]]),
        ("same_hosts", SAVED, [[SHARED, FULL_LOAD], [set_aside(FULL_SAVE), progressed(FULL_SAVE)]]),
        # An error that comes back from an older checkpoint is the script's, even if the job has completed checkpoints on the way.
        ("error_came_back", SAVED, [[ERROR, set_aside(ERROR), progressed(ERROR)]]),
        ("error_came_back", {"checkpoint": "3", "has_older": True}, [[ERROR, set_aside(ERROR), ERROR]]),
        ("same_hosts", SAVED, [[ERROR, set_aside(ERROR), progressed(OTHER_LINE)]]),
        ("error_came_back", SAVED, [[ONLY_HERE, set_aside(ONLY_HERE), progressed(ERROR)]]),
        # An error without a line comes back only after the same checkpoint. Otherwise, a job that writes the same checkpoint again and dies
        # again would restart forever.
        *(
            (rule, {"checkpoint": checkpoint, "has_older": True}, [[progressed(cause), set_aside(cause), last(cause)]])
            for cause in (EXIT, CRASH, MEMORY)
            for rule, checkpoint, last in (
                ("error_came_back", "4", progressed),
                ("same_hosts", "9", progressed),
                ("suspect_checkpoint", "3", lambda cause: cause),
                ("same_hosts", "4", lambda _cause: progressed(ERROR)),
                ("same_hosts", "4", lambda _cause: progressed(KILL)),
            )
        ),
        ("same_hosts", SAVED, [[progressed(KILL), set_aside(KILL), progressed(KILL)]]),
        # A hang that recurs at the same place stops the third attempt: ranks that wait for a lost message are at the same place.
        ("same_hosts", {}, [[HANG], [HANG] * 2, [HANG, HANG, ELSEWHERE], [ELSEWHERE, HANG, HANG], [HANG, KILL, HANG]]),
        ("same_hosts", {}, [[HANG, progressed(HANG), HANG], [HANG, HANG, progressed(HANG)]]),
        ("same_hang", {}, [[HANG] * 3, [progressed(HANG), HANG, HANG]]),
        ("same_hosts", SAVED, [[HANG] * 2]),
        # The host is left out and the checkpoint is set aside if either can be the reason.
        ("suspect_host_and_checkpoint", {**TWO, **SAVED}, [[ONLY_HERE] * 2, [ABORT] * 2, [progressed(ABORT), ABORT]]),
        ("suspect_host", {**TWO, **SAVED}, [[ABORT, ABORT._replace(what="signal SIGABRT at train.py, line 10")], [ABORT, KILL]]),
        ("suspect_host", {**TWO, **SAVED, "has_older": False}, [[ABORT] * 2]),
        ("suspect_checkpoint", {**TWO, **SAVED}, [[ABORT, at("w3", ABORT)]]),
        ("suspect_checkpoint", SAVED, [[ABORT] * 2]),
    ],
)
def test_what_follows_a_failure(rule, options, cases):
    for attempts in cases:
        decision = decide(attempts, **options)
        assert decision[:2] == (ACTIONS[rule], rule), attempts
        available, last = options.get("available", HOSTS), attempts[-1]
        suspect = getattr(last, "cause", last).host if rule.startswith("suspect_host") else ""
        used = [host for host in available if host != suspect]
        assert list(decision.hosts) == (used if decision.action == "restart" else []), attempts
        assert decision.set_aside == (options["checkpoint"] if rule.endswith("checkpoint") else ""), attempts
        assert list(decision.replacements) == [host for host in decision.hosts[:3] if host == "w4"], attempts
        if options is FOUR:
            alone = [each._replace(alone=False) if isinstance(each, Cause) else each for each in attempts]
            enough = decide(attempts)
            assert (enough.rule != "suspect_host", enough.action) == (True, decide(alone).action), "all hosts are needed"


@pytest.mark.parametrize(
    ("available", "rule", "standby", "replacements"),
    [
        ("1234 5", "same_hosts", ["w4", "w5"], []),
        ("123 5", "same_hosts", ["w5"], []),
        ("123", "same_hosts", [], []),
        ("134 5", "spare_host", ["w5"], ["w4"]),
        ("13 5", "spare_host", [], ["w5"]),
        ("34 5", "spare_host", [], ["w4", "w5"]),
        ("3 5", "fewer_hosts", [], ["w5"]),
    ],
)
def test_spares_take_the_place_of_lost_hosts(available, rule, standby, replacements):
    """The job runs on w1 to w3. The other two hosts are spares."""
    hosts = [f"w{number}" for number in (1, 2, 3, 4, 5)]
    left = [host for host in hosts if host[1] in available]
    decision = decide([LOST], available=left, hosts=hosts, spares=2, policy=RestartPolicy(3, 2))
    assert decision[:3] == ("restart", rule, left)
    assert (decision.standby, decision.replacements) == (standby, replacements)


def test_a_job_stops_if_its_launcher_cannot_run_it_on_the_hosts_that_are_left():
    situation = Situation([FailedAttempt(LOST, progress=False)], HOSTS, HOSTS[:1], RestartPolicy(3, 1))
    assert recovery.decide(situation).rule == "fewer_hosts"
    assert recovery.decide(situation._replace(refusal="mpi needs more hosts."))[:2] == ("stop", "launcher")


@pytest.mark.parametrize(
    ("policy", "available", "rebooting", "waits"),
    [
        ((3, 3), ["w1", "w3"], ["w2"], True),
        ((3, 3), ["w1", "w3"], [], False),
        ((3, 3), ["w1"], ["w2"], False),
        ((3, 3), ["w1"], ["w2", "w3"], True),
        ((3, 2), ["w1", "w3"], ["w2"], False),
        ((0, 3), ["w1", "w3"], ["w2"], False),
    ],
)
def test_a_job_waits_for_a_reboot_only_if_it_continues_with_the_host_and_not_without_it(policy, available, rebooting, waits):
    situation = Situation([FailedAttempt(READ_ONLY, progress=False)], HOSTS, available, RestartPolicy(*policy))
    assert recovery.waits_for_reboot(situation, rebooting) is waits


@pytest.mark.parametrize(
    ("fails_again", "causes"),
    [
        (True, [ERROR, EXIT, CRASH, GPU_MEMORY, Cause(failure_causes.NOT_STARTED, "no such file")]),
        (False, [KILL, HARDWARE, MEMORY, FULL, LOST, HANG, XID, LIMIT, OPERATOR, LIMIT._replace(name="SIGSEGV")]),
    ],
)
def test_the_script_is_to_blame_only_for_what_would_fail_on_other_hosts_too(fails_again, causes):
    assert {failure_causes.blames_script(cause) for cause in causes} == {fails_again}
    assert not failure_causes.is_own_fault(XID)


def test_a_deterministic_error_stops_within_three_attempts():
    for cause in (ERROR, EXIT, CRASH, FULL, MEMORY):
        for policy in (RestartPolicy(3, 3), RestartPolicy(3, 2)):
            attempts, decision = [cause], decide([cause], policy=policy)
            while decision.action == recovery.RESTART:
                attempts.append(at("w1", cause) if len(decision.hosts) == 2 else cause)
                decision = decide(attempts, policy=policy)
            assert len(attempts) <= 3


def test_the_documentation_has_the_rows_of_the_table():
    """The rows in the documentation have the same order and the same actions as the rows of the decision table."""
    rows = re.findall(r"^\| \d+ \| `([a-z_]+)` \|.*\| (stop|restart)", DOCS.read_text(), re.MULTILINE)
    assert rows == [(rule.name, rule.action) for rule in recovery.TABLE]


@pytest.mark.parametrize("notice", [SPOT, BLOCK])
@pytest.mark.parametrize(
    ("before", "after", "restarts"),
    [
        ("nnnnnnnn", "", 0),
        ("", "f", 0),
        ("n", "fff", 2),
        ("n", "ffff", 3),
        ("ff", "n", 1),
        ("ffff", "nn", 3),
        ("fPn", "ff", 2),
        ("ffN", "ff", 1),
        ("fffP", "", 0),
    ],
)
def test_announced_terminations_do_not_use_up_the_restarts(notice, before, after, restarts):
    """`f` is a failure, `n` is a notice, and an uppercase letter is an attempt that has completed a checkpoint."""
    made = [FailedAttempt(notice if each in "nN" else KILL, each in "PN") for each in before + after]
    assert recovery.idle_restarts(made) == restarts
