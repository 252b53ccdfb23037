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
HOSTS = ("w1", "w2", "w3")


def decide(*attempts, policy=None, available=HOSTS, checkpoint="", has_older=False, hosts=HOSTS, spares=0):
    """Return the decision after the `attempts`. Each of them is an Attempt, or the cause of a failure without progress."""
    policy = policy or RestartPolicy(3, 3)
    made = [attempt if isinstance(attempt, FailedAttempt) else FailedAttempt(attempt, progress=False) for attempt in attempts]
    return recovery.decide(Situation(made, hosts, available, policy, checkpoint, has_older, spares=spares))


def progressed(cause):
    return FailedAttempt(cause, progress=True)


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
    decision = decide(LOST, available=left, hosts=hosts, spares=2, policy=RestartPolicy(3, 2))
    assert decision[:3] == ("restart", rule, left)
    assert (decision.standby, decision.replacements) == (standby, replacements)


def test_without_spares_that_are_left_the_minimum_applies():
    hosts = [*HOSTS, "w4"]
    decision = decide(LOST, available=["w1", "w3"], hosts=hosts, spares=1)
    assert decision[:2] == ("stop", "too_few_hosts")


def test_a_spare_takes_the_place_of_a_suspect_host():
    decision = decide(KILL, KILL, available=[*HOSTS, "w4"], hosts=[*HOSTS, "w4"], spares=1)
    assert decision[:2] == ("restart", "suspect_host")
    assert (decision.hosts, decision.standby, decision.replacements) == (["w1", "w3", "w4"], [], ["w4"])


@pytest.mark.parametrize("cause", [ERROR, EXIT, KILL, CRASH, FULL, MEMORY])
def test_the_first_failure_is_followed_by_a_restart(cause):
    decision = decide(cause, checkpoint="4", has_older=True)
    assert (decision.action, decision.rule, decision.hosts, decision.set_aside) == ("restart", "same_hosts", list(HOSTS), "")


@pytest.mark.parametrize(
    ("attempts", "rule"),
    [
        ([OPERATOR], "operator"),
        ([LIMIT], "time_limit"),
        ([SYNTAX], "certain_error"),
        ([ARGUMENTS], "certain_error"),
        ([ERROR._replace(name=failure_causes.CERTAIN)], "certain_error"),
        ([ERROR, ERROR], "same_error"),
        ([EXIT, EXIT], "same_error"),
        ([CRASH, CRASH], "same_error"),
        ([MEMORY, MEMORY], "same_error"),
        ([KILL, ERROR, ERROR], "same_error"),
        ([GPU_MEMORY, GPU_MEMORY], "same_error"),
        ([KILL, KILL, KILL, KILL], "no_restarts_left"),
        ([ERROR, OTHER_LINE, ERROR, OTHER_LINE], "no_restarts_left"),
    ],
)
def test_what_would_fail_again_is_stopped(attempts, rule):
    decision = decide(*attempts)
    assert decision[:2] == ("stop", rule)
    assert decision.hosts == ()


@pytest.mark.parametrize(
    "attempts",
    [
        [ERROR, OTHER_LINE],
        [ERROR, progressed(ERROR)],
        [ERROR, progressed(ERROR), KILL],
        [KILL, KILL, KILL],
        [LOST, LOST],
        [*[KILL] * 3, progressed(KILL), *[KILL] * 2],
        [progressed(ERROR)] * 20,
    ],
)
def test_what_may_succeed_is_started_again(attempts):
    assert decide(*attempts)[:2] == ("restart", "same_hosts")


@pytest.mark.parametrize(
    ("attempts", "options", "rule"),
    [
        ([KILL, KILL], {"policy": RestartPolicy(1, 3)}, "no_restarts_left"),
        ([KILL] * 3, {"policy": RestartPolicy(2, 3)}, "no_restarts_left"),
        ([IMPORT], {"policy": RestartPolicy(3, 2)}, "suspect_host"),
        ([NO_MODULE], {}, "certain_error"),
        ([KILL, ERROR], {"checkpoint": "4", "has_older": True}, "suspect_checkpoint"),
        ([KILL, EXIT, EXIT], {}, "same_error"),
    ],
)
def test_the_options_and_the_checkpoints_count(attempts, options, rule):
    decision = decide(*attempts, **options)
    assert decision.rule == rule
    assert bool(decision.set_aside) == (rule == "suspect_checkpoint")


def test_a_host_that_cannot_be_used_anyway_is_no_suspect():
    assert decide(KILL, KILL, available=("w1", "w3"), policy=RestartPolicy(3, 1)).rule == "fewer_hosts"
    assert decide(KILL, progressed(KILL), policy=RestartPolicy(3, 1)).rule == "same_hosts"


def test_a_new_checkpoint_resets_the_count_of_restarts():
    attempts = [KILL, KILL, KILL, progressed(KILL)]
    assert recovery.idle_restarts([FailedAttempt(each, progress=False) if isinstance(each, Cause) else each for each in attempts]) == 0
    assert decide(*attempts, KILL, KILL, KILL).rule == "no_restarts_left"


def test_a_job_has_a_limited_number_of_attempts():
    """Attempt numbers beyond the limit would not be read, so the job would seem to have ended."""
    attempts = [progressed(EXIT)] * recovery.ATTEMPTS_LIMIT
    policy = RestartPolicy(3, 3, [], [3])
    assert decide(*attempts[1:], policy=policy)[:2] == ("restart", "restart_exit_code")
    assert decide(*attempts, policy=policy)[:2] == ("stop", "too_many_attempts")


def test_a_job_stops_if_its_launcher_cannot_run_it_on_the_hosts_that_are_left():
    situation = Situation([FailedAttempt(LOST, progress=False)], HOSTS, HOSTS[:1], RestartPolicy(3, 1))
    assert recovery.decide(situation).rule == "fewer_hosts"
    assert recovery.decide(situation._replace(refusal="mpi needs more hosts."))[:2] == ("stop", "launcher")


def test_exit_codes_decide_before_everything_else_that_concerns_the_script():
    policy = RestartPolicy(3, 3, stop_exit_codes=[3], restart_exit_codes=[])
    assert decide(EXIT, policy=policy)[:2] == ("stop", "stop_exit_code")
    policy = RestartPolicy(3, 3, stop_exit_codes=[], restart_exit_codes=[3])
    assert decide(EXIT, EXIT, EXIT, policy=policy)[:2] == ("restart", "restart_exit_code")
    assert decide(EXIT, EXIT, EXIT, EXIT, policy=policy)[:2] == ("stop", "no_restarts_left")


def test_a_job_continues_without_hosts_only_if_enough_are_left():
    left = ("w1", "w3")
    assert decide(LOST, available=left)[:2] == ("stop", "too_few_hosts")
    decision = decide(LOST, available=left, policy=RestartPolicy(3, 2))
    assert (decision.action, decision.rule, decision.hosts) == ("restart", "fewer_hosts", ["w1", "w3"])


def test_a_host_on_which_the_job_fails_twice_is_left_out_if_enough_are_left():
    decision = decide(FULL, FULL, policy=RestartPolicy(3, 2))
    assert (decision.rule, decision.hosts) == ("suspect_host", ["w1", "w3"])
    assert decide(KILL, FULL, policy=RestartPolicy(3, 2)).rule == "suspect_host"
    assert decide(FULL, FULL).rule == "full_storage"
    assert decide(FULL, FULL._replace(host="w3"), policy=RestartPolicy(3, 2)).rule == "full_storage"
    assert decide(ERROR, ERROR, policy=RestartPolicy(3, 2)).rule == "same_error"


@pytest.mark.parametrize(("cause", "rule"), [(READ_ONLY, "after_reboot"), (XID, "ask_for_replacement")])
def test_an_unhealthy_host_is_left_out(cause, rule):
    decision = decide(cause, available=["w1", "w3"], policy=RestartPolicy(3, 2))
    assert (decision.action, decision.rule, decision.hosts) == ("restart", rule, ["w1", "w3"])
    decision = decide(cause, available=["w1", "w3", "w4"], hosts=[*HOSTS, "w4"], spares=1)
    assert (decision.rule, decision.hosts, decision.replacements) == (rule, ["w1", "w3", "w4"], ["w4"])
    assert decide(cause, available=["w1", "w3"])[:2] == ("stop", "too_few_hosts")
    assert decide(*[cause] * 4, available=["w1", "w3"], policy=RestartPolicy(3, 2)).rule == "no_restarts_left"


@pytest.mark.parametrize("cause", [READ_ONLY, XID])
def test_a_host_without_a_finding_after_the_failure_stays_in_the_job(cause):
    """A finding that ended the attempt while the job was running can have passed when the checks run after the failure."""
    decision = decide(cause)
    assert (decision.action, decision.hosts) == ("restart", list(HOSTS))


@pytest.mark.parametrize(
    ("min_hosts", "available", "rebooting", "waits"),
    [
        (3, ["w1", "w3"], ["w2"], True),
        (3, ["w1", "w3"], [], False),
        (3, ["w1"], ["w2"], False),
        (3, ["w1"], ["w2", "w3"], True),
        (2, ["w1", "w3"], ["w2"], False),
    ],
)
def test_a_job_waits_for_a_reboot_only_if_it_continues_with_the_host_and_not_without_it(min_hosts, available, rebooting, waits):
    situation = Situation([FailedAttempt(READ_ONLY, progress=False)], HOSTS, available, RestartPolicy(3, min_hosts))
    assert recovery.waits_for_reboot(situation, rebooting) is waits


def test_a_job_that_would_stop_anyway_does_not_wait_for_a_reboot():
    situation = Situation([FailedAttempt(READ_ONLY, progress=False)], HOSTS, ["w1", "w3"], RestartPolicy(0, 3))
    assert not recovery.waits_for_reboot(situation, ["w2"])


@pytest.mark.parametrize(
    ("cause", "fails_again"),
    [
        *((each, True) for each in (ERROR, EXIT, CRASH, GPU_MEMORY, Cause(failure_causes.NOT_STARTED, "no such file"))),
        *((each, False) for each in (KILL, HARDWARE, MEMORY, FULL, LOST, HANG, XID, LIMIT, OPERATOR, LIMIT._replace(name="SIGSEGV"))),
    ],
)
def test_the_script_is_to_blame_only_for_what_would_fail_on_other_hosts_too(cause, fails_again):
    assert failure_causes.blames_script(cause) is fails_again


def test_health_findings_are_no_evidence_against_the_script():
    assert not failure_causes.is_own_fault(XID)
    assert (
        decide(XID, XID, available=["w1", "w3"], checkpoint="4", has_older=True, policy=RestartPolicy(3, 2)).rule == "ask_for_replacement"
    )


def test_a_checkpoint_after_which_the_job_dies_twice_is_set_aside():
    decision = decide(KILL, ERROR, checkpoint="4", has_older=True)
    assert (decision.action, decision.rule, decision.set_aside) == ("restart", "suspect_checkpoint", "4")
    assert decide(ERROR, ERROR, checkpoint="4", has_older=True).set_aside == "4"
    assert decide(ERROR, ERROR, checkpoint="4").rule == "same_error"
    assert decide(ERROR, KILL, checkpoint="4", has_older=True).rule == "same_hosts", "a signal from outside proves nothing"
    assert decide(ERROR, progressed(ERROR), checkpoint="4", has_older=True).rule == "same_hosts"


@pytest.mark.parametrize(
    ("cause", "rule"),
    [
        (FULL, "full_storage"),
        (GPU_MEMORY, "same_error"),
        (Cause(failure_causes.NOT_STARTED, "could not be started", "w2", 127), "same_error"),
    ],
)
def test_full_storage_or_a_missing_program_is_not_the_fault_of_a_checkpoint(cause, rule):
    assert decide(progressed(KILL), cause, checkpoint="4", has_older=True)[:2] == ("restart", "same_hosts")
    assert decide(progressed(cause), cause, checkpoint="4", has_older=True)[:2] == ("stop", rule)


@pytest.mark.parametrize(
    ("attempts", "rule"),
    [
        ([FULL_SAVE], "same_hosts"),
        ([FULL_SAVE, FULL_LOAD], "full_storage"),
        ([progressed(FULL_SAVE), FULL_LOAD], "full_storage"),
        ([FULL_SAVE, progressed(FULL_SAVE)], "same_hosts"),
        ([ERROR, FULL_SAVE], "same_hosts"),
        ([FULL_SAVE, FULL_LOAD._replace(host="w3")], "same_hosts"),
        ([SHARED, SHARED._replace(host="w3", what="OSError at fit.py, line 1")], "full_storage"),
        ([SHARED, FULL_LOAD], "same_hosts"),
        ([FULL_SAVE, ERROR], "suspect_checkpoint"),
    ],
)
def test_full_storage_ends_a_job_if_a_restart_has_not_freed_it(attempts, rule):
    """No checkpoint is set aside while the storage is full. Later, the checkpoint that could not be written completely is."""
    decision = decide(*attempts, checkpoint="4", has_older=True)
    assert decision.rule == rule
    assert bool(decision.set_aside) == (rule == "suspect_checkpoint")
    before = [FailedAttempt(FULL_SAVE, progress=False, set_aside="4")]
    assert decide(*before, progressed(FULL_SAVE), checkpoint="4", has_older=True).rule == "same_hosts", "the script is not to blame"


@pytest.mark.parametrize(("cause", "rule"), [(FULL_SAVE, "suspect_host"), (SHARED, "full_storage")])
def test_only_a_full_disk_of_the_host_itself_is_a_reason_to_leave_the_host_out(cause, rule):
    assert decide(cause, cause, policy=RestartPolicy(3, 2)).rule == rule


def test_an_error_that_comes_back_from_an_older_checkpoint_is_the_scripts():
    """The job reaches the same place again, and may even complete checkpoints on the way."""
    before = [ERROR, FailedAttempt(ERROR, progress=False, set_aside="4")]
    assert decide(*before, progressed(ERROR), checkpoint="4", has_older=True)[:2] == ("stop", "error_came_back")
    assert decide(*before, ERROR, checkpoint="3", has_older=True)[:2] == ("stop", "error_came_back")
    assert decide(*before, progressed(OTHER_LINE), checkpoint="4", has_older=True).rule == "same_hosts"


@pytest.mark.parametrize("cause", [EXIT, CRASH, MEMORY])
def test_an_error_without_a_line_comes_back_only_after_the_same_checkpoint(cause):
    """A job that writes the same checkpoint again and dies again would otherwise restart forever."""
    before = [progressed(cause), FailedAttempt(cause, progress=False, set_aside="4")]
    assert decide(*before, progressed(cause), checkpoint="4", has_older=True)[:2] == ("stop", "error_came_back")
    assert decide(*before, progressed(cause), checkpoint="9", has_older=True).rule == "same_hosts", "it got further than before"
    assert decide(*before, cause, checkpoint="3", has_older=True)[:2] == ("restart", "suspect_checkpoint")
    assert decide(*before, progressed(ERROR), checkpoint="4", has_older=True).rule == "same_hosts"
    assert decide(*before, progressed(KILL), checkpoint="4", has_older=True).rule == "same_hosts"
    signal = [progressed(KILL), FailedAttempt(KILL, progress=False, set_aside="4")]
    assert decide(*signal, progressed(KILL), checkpoint="4", has_older=True).rule == "same_hosts", "another process sends this signal"


def test_a_deterministic_error_stops_within_three_attempts():
    for cause in (ERROR, EXIT, CRASH, FULL, MEMORY):
        for available in (RestartPolicy(3, 3), RestartPolicy(3, 2)):
            attempts, decision = [cause], decide(cause, policy=available)
            while decision.action == recovery.RESTART:
                attempts.append(cause._replace(host="w1") if len(decision.hosts) == 2 else cause)
                decision = decide(*attempts, policy=available)
            assert len(attempts) <= 3


def test_a_hang_that_recurs_at_the_same_place_stops_the_third_attempt():
    elsewhere = HANG._replace(what="a hang at train.py, line 20")
    assert decide(HANG).rule == decide(HANG, HANG).rule == "same_hosts", "ranks that wait for a lost message are at the same place"
    assert decide(HANG, HANG, HANG)[:2] == ("stop", "same_hang")
    assert decide(progressed(HANG), HANG, HANG)[:2] == ("stop", "same_hang")
    for others in ([HANG, HANG, elsewhere], [elsewhere, HANG, HANG], [HANG, KILL, HANG], [HANG, progressed(HANG), HANG]):
        assert decide(*others).rule == "same_hosts"
    assert decide(HANG, HANG, progressed(HANG)).rule == "same_hosts"
    assert decide(HANG, HANG, checkpoint="4", has_older=True).rule == "same_hosts", "a hang proves nothing about a checkpoint"


def test_a_host_is_left_out_only_if_its_rank_hung_unlike_the_others():
    assert decide(HANG, HANG, policy=RestartPolicy(3, 2)).rule == "suspect_host"
    assert decide(HANG, KILL, policy=RestartPolicy(3, 2)).rule == "suspect_host"
    assert decide(HANG, NO_DATA, policy=RestartPolicy(3, 2)).rule == "suspect_host"
    assert decide(NO_DATA, NO_DATA).rule == "same_hosts"
    assert decide(ALL_HANG, ALL_HANG, policy=RestartPolicy(3, 2)).rule == "same_hosts"
    assert decide(ALL_HANG, HANG, policy=RestartPolicy(3, 2)).rule == "same_hosts"


@pytest.mark.parametrize(
    ("attempts", "rule"),
    [
        ([IMPORT], "suspect_host"),
        ([KILL, IMPORT], "suspect_host"),
        ([IMPORT._replace(alone=False)], "certain_error"),
        ([ARGUMENTS._replace(alone=True)], "certain_error"),
        ([IMPORT, IMPORT._replace(host="w3")], "certain_error"),
        ([IMPORT, IMPORT._replace(host="w3", alone=False)], "certain_error"),
        ([IMPORT, IMPORT._replace(host="w3", what="ImportError at train.py, line 2")], "suspect_host"),
        ([ONLY_HERE], "same_hosts"),
        ([ONLY_HERE, ONLY_HERE], "suspect_host"),
        ([ONLY_HERE, EXIT._replace(alone=True)], "suspect_host"),
        ([ERROR, ONLY_HERE], "same_error"),
        ([ONLY_HERE, ERROR], "same_error"),
        ([ONLY_HERE, progressed(ONLY_HERE)], "same_hosts"),
        ([ONLY_HERE, ONLY_HERE._replace(host="w3")], "same_error"),
        ([ONLY_HERE, ONLY_HERE, ONLY_HERE._replace(host="w3")], "same_error"),
        ([GPU_MEMORY._replace(alone=True)] * 2, "suspect_host"),
        ([HARDWARE], "same_hosts"),
        ([HARDWARE, HARDWARE], "suspect_host"),
        ([KILL, HARDWARE], "suspect_host"),
    ],
)
def test_an_error_that_only_one_host_has_is_first_an_error_of_the_host(attempts, rule):
    decision = decide(*attempts, hosts=[*HOSTS, "w4"], available=[*HOSTS, "w4"], spares=1)
    assert decision.rule == rule
    if rule == "suspect_host":
        left_out = attempts[-1].host
        assert (decision.hosts, decision.replacements) == ([host for host in (*HOSTS, "w4") if host != left_out], ["w4"])
    enough = decide(*attempts)
    assert enough.rule != "suspect_host", "all hosts are needed"
    assert enough.action == decide(*(each._replace(alone=False) if isinstance(each, Cause) else each for each in attempts)).action


def test_hardware_that_an_exception_names_is_no_evidence_against_a_checkpoint():
    assert decide(HARDWARE, HARDWARE, checkpoint="4", has_older=True)[:2] == ("restart", "same_hosts")
    assert decide(ERROR, HARDWARE, checkpoint="4", has_older=True)[:2] == ("restart", "same_hosts")
    assert decide(*[HARDWARE] * 4).rule == "no_restarts_left"


def test_the_host_is_left_out_and_the_checkpoint_is_set_aside_if_either_can_be_the_reason():
    decision = decide(ONLY_HERE, ONLY_HERE, policy=RestartPolicy(3, 2), checkpoint="4", has_older=True)
    assert (decision.rule, decision.hosts, decision.set_aside) == ("suspect_host_and_checkpoint", ["w1", "w3"], "4")
    again = FailedAttempt(ONLY_HERE, progress=False, set_aside="4")
    assert decide(ONLY_HERE, again, progressed(ERROR), checkpoint="4", has_older=True)[:2] == ("stop", "error_came_back")
    assert decide(ONLY_HERE, ONLY_HERE, checkpoint="4", has_older=True).rule == "suspect_checkpoint"


def test_the_documentation_has_the_rows_of_the_table():
    """The rows in the documentation have the same order and the same actions as the rows of the decision table."""
    rows = re.findall(r"^\| \d+ \| `([a-z_]+)` \|.*\| (stop|restart)", DOCS.read_text(), re.MULTILINE)
    assert rows == [(rule.name, rule.action) for rule in recovery.TABLE]


ABORT = Cause(failure_causes.SIGNAL, "signal SIGABRT at train.py, line 9", "w2", None, "SIGABRT")


def test_a_signal_at_the_same_line_is_an_error_of_the_host_the_checkpoint_or_the_script():
    """The third attempt shows which of the three it is, so a script with such an error has three attempts."""
    policy, saved = RestartPolicy(3, 2), {"checkpoint": "30", "has_older": True}
    second = decide(progressed(ABORT), ABORT, policy=policy, **saved)
    assert (second.rule, second.hosts, second.set_aside) == ("suspect_host_and_checkpoint", ["w1", "w3"], "30")
    again = FailedAttempt(ABORT, progress=False, set_aside="30")
    third = decide(progressed(ABORT), again, progressed(ABORT._replace(host="w3")), available=("w1", "w3"), policy=policy, **saved)
    assert third[:2] == ("stop", "error_came_back")


@pytest.mark.parametrize(
    ("last", "changes", "rule"),
    [
        (ABORT._replace(what="signal SIGABRT at train.py, line 10"), {}, "suspect_host"),
        (KILL, {}, "suspect_host"),
        (ABORT._replace(host="w3"), {}, "suspect_checkpoint"),
        (ABORT, {"policy": RestartPolicy(3, 3)}, "suspect_checkpoint"),
        (ABORT, {"has_older": False}, "suspect_host"),
    ],
)
def test_host_and_checkpoint_are_suspect_only_together(last, changes, rule):
    assert decide(ABORT, last, **{"policy": RestartPolicy(3, 2), "checkpoint": "30", "has_older": True, **changes}).rule == rule


SPOT = Cause(failure_causes.SPOT_INTERRUPTION, host="w2")
BLOCK = Cause(failure_causes.CAPACITY_BLOCK_END, host="w2")


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
    ],
)
def test_announced_terminations_do_not_use_up_the_restarts(notice, before, after, restarts):
    """`f` is a failure, `n` is a notice, and an uppercase letter is an attempt that has completed a checkpoint."""
    made = [FailedAttempt(notice if each in "nN" else KILL, each in "PN") for each in before + after]
    assert recovery.idle_restarts(made) == restarts


@pytest.mark.parametrize("notice", [SPOT, BLOCK])
def test_the_host_that_aws_terminates_is_left_out(notice):
    left = ["w1", "w3"]
    assert decide(*[notice] * 9, available=left, policy=RestartPolicy(3, 2))[:2] == ("restart", "fewer_hosts")
    assert decide(*[notice] * 9, available=[*left, "w4"], hosts=[*HOSTS, "w4"], spares=1)[:2] == ("restart", "spare_host")
    assert decide(notice, available=left)[:2] == ("stop", "too_few_hosts")
