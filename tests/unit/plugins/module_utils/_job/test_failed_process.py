"""Tests of the process that ended a job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import failed_process, failure_causes, recovery
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.storage_problems import StorageProblem
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause, describe_end

from .conftest import TIMED_OUT, killed_by, process


def test_a_lost_process_ended_when_it_was_last_heard_of():
    assert failed_process.last_moment({"state": "lost", "heartbeat": 5.0, "finished": 9.0}) == 5.0
    assert failed_process.last_moment({"state": "failed", "heartbeat": 5.0, "finished": 9.0}) == 9.0


CLOSED = {"kind": "script_error", "what": "RuntimeError at train.py, line 9", "message": "Connection closed by peer"}
RAISED = {"kind": "script_error", "what": "NameError at train.py, line 42", "name": "NameError", "message": "name 'x' is not defined"}


def test_the_earliest_failure_is_the_first_whatever_its_rank():
    found = failed_process.first_failure([process(0, "failed", 12.0), process(1, "stopped", 3.0), process(2, "failed", 11.5)])
    assert found["rank"] == 2


def test_a_host_can_return_a_cause_without_message():
    assert not failed_process.has_lost_connection({"cause": {"kind": "signal", "message": None}})


def test_a_lost_process_comes_before_those_that_were_stopped():
    assert failed_process.first_failure([process(0, "stopped", 1.0), process(1, "lost")])["rank"] == 1


def test_a_lost_process_comes_before_those_that_lost_the_connection_to_it():
    assert failed_process.first_failure([process(0, "failed", 12.0), process(1, "lost", heartbeat=8.0)])["rank"] == 1
    assert failed_process.first_failure([process(0, "failed", 12.0), process(1, "lost", heartbeat=13.0)])["rank"] == 0


@pytest.mark.parametrize(
    "message",
    [
        "[Errno 104] Connection reset by peer",
        "[Errno 32] Broken pipe",
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.11]:20123",
        "NCCL error: ncclRemoteError: A call failed possibly due to a network error or a remote process exited prematurely.",
        "recvValue failed on SocketImpl(fd=3): Connection was likely closed. Did the remote server shutdown or crash?",
        "failed to recv, got 0 bytes",
        "Net : Connection closed by remote peer ip-10-0-0-5.ec2.internal<50260>",
        "socketStartConnect: Connect to 10.0.0.5<43111> failed : Software caused connection abort",
        "socketPollConnect poll() returned 1, no POLLOUT events: Connection refused",
        "UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.5:23000: Connection refused",
        'UNKNOWN:Error received from peer  {grpc_message:"Socket closed", grpc_status:14}',
        "ABORTED: /job:jax_worker/replica:0/task:1 unexpectedly tried to connect with a different incarnation.",
        "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died",
    ],
)
def test_a_process_that_lost_a_connection_is_the_cause_only_if_no_other_process_failed(message):
    cascade = {"cause": {"kind": "script_error", "what": "RuntimeError at train.py, line 9", "message": message}}
    first = process(0, "failed", 11.98, **cascade)
    second = process(1, "failed", 11.99, **cascade)
    root = process(2, "failed", 12.0, cause={"kind": "script_error", "what": "ValueError at train.py, line 42", "message": "no number"})
    assert failed_process.first_failure([first, root, second])["rank"] == 2
    assert failed_process.first_failure([first, process(2, "failed", 12.0)])["rank"] == 2
    assert failed_process.first_failure([first, process(2, "lost", heartbeat=12.5)])["rank"] == 2
    assert failed_process.first_failure([second, first, process(2, "stopped", 1.0)])["rank"] == 0


@pytest.mark.parametrize("name", ["RendezvousClosedError", "RendezvousConnectionError"])
def test_an_agent_whose_peer_has_ended_is_the_cause_only_if_no_other_process_failed(name):
    agent = process(0, "failed", 11.9, cause={"kind": "script_error", "what": f"{name} at x.py, line 7", "name": name, "message": ""})
    root = process(1, "failed", 12.0, cause=RAISED)
    assert failed_process.first_failure([agent, root])["rank"] == 1
    assert failed_process.first_failure([agent])["rank"] == 0


def test_an_aborted_process_is_the_cause_only_if_no_script_raised_an_exception():
    aborted = process(0, "failed", 11.0, cause=killed_by("SIGABRT"))
    crashed = process(0, "failed", 11.0, cause=killed_by("SIGSEGV"))
    raised = process(1, "failed", 12.0, cause={"kind": "script_error", "what": "ValueError at train.py, line 37", "message": "bad batch"})
    assert failed_process.first_failure([aborted, raised])["rank"] == 1
    assert failed_process.first_failure([crashed, raised])["rank"] == 0
    assert failed_process.first_failure([aborted, process(1, "failed", 12.0)])["rank"] == 0
    for kind in ("disk_full", "gpu_memory", "hardware"):
        other = process(1, "failed", 12.0, cause={"kind": kind, "what": "OSError at train.py, line 37"})
        assert failed_process.first_failure([aborted, other])["rank"] == 1
    hardware = process(0, "failed", 11.0, cause={**killed_by("SIGABRT"), "kind": "hardware"})
    assert failed_process.first_failure([hardware, raised])["rank"] == 0, "the message of the abort names the cause"
    waited = process(0, "failed", 11.0, cause=TIMED_OUT)
    assert failed_process.first_failure([waited, raised])["rank"] == 1, "it waited for the rank that raised the exception"


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([process(1, "stopped", 15.0)], True),
        ([process(1, "succeeded", 12.0)], True),
        ([process(1, "failed", 12.1, cause=CLOSED)], True),
        ([process(1, "failed", 12.1, cause=RAISED)], False),
        ([process(1, "stopped", 15.0), process(2, "failed", 12.1, cause=RAISED)], False),
        ([process(1, "stopped", 15.0, started=5.0)], False),
        ([process(1, "running", heartbeat=11.0)], True),
        ([process(1, "running", heartbeat=10.9)], False),
        ([process(1, "stopped", 11.0, heartbeat=10.9)], True),
        ([process(1, "stopped", 10.9, heartbeat=11.0)], False),
        ([process(1, "stopped", 15.0, part="service")], False),
        ([process(1, "stopped", 15.0, host="w1")], False),
        ([], False),
    ],
)
def test_an_error_occurs_on_one_host_alone_if_the_others_have_come_further(others, expected):
    failure = process(0, "failed", 13.0, started=2.0, cause=RAISED)
    assert failed_process.is_alone(failure, [failure, *others]) is expected


@pytest.mark.parametrize(
    ("judged", "others", "rank"),
    [
        (process(0, "failed", 12.0), [process(1, "lost", heartbeat=8.0), process(2, "lost", heartbeat=9.0)], 1),
        (process(0, "failed", 12.0), [process(1, "lost", heartbeat=13.0)], 0),
        (process(0, "failed", 12.0), [process(1, "failed", 8.0), process(2, "running")], 0),
        (process(0, "failed", 12.0), [process(1, "lost", heartbeat=8.0, part="spare")], 0),
        (process(0, "stopped", 12.0), [process(1, "lost", heartbeat=8.0)], 0),
        (process(0, "lost", heartbeat=12.0), [process(1, "lost", heartbeat=8.0)], 0),
    ],
)
def test_the_cause_is_what_was_judged_unless_a_process_was_lost_before(judged, others, rank):
    assert failed_process.cause([judged, *others], judged)["rank"] == rank


@pytest.mark.parametrize(
    ("cause", "others", "rank"),
    [
        (CLOSED, [process(1, "stopped", 12.5), process(2, "failed", 12.4, cause=RAISED)], 2),
        (killed_by("SIGABRT"), [process(1, "failed", 12.4, cause=RAISED)], 1),
        (TIMED_OUT, [process(1, "failed", 12.4, cause=RAISED)], 1),
        (CLOSED, [process(1, "failed", 12.4, cause=CLOSED)], 0),
        (CLOSED, [process(1, "stopped", 12.5)], 0),
        (killed_by("SIGSEGV"), [process(1, "failed", 12.4, cause=RAISED)], 0),
    ],
)
def test_a_failure_that_was_recorded_after_the_verdict_explains_a_lost_connection(cause, others, rank):
    judged = process(0, "failed", 12.0, cause=cause)
    assert failed_process.cause([judged, *others], judged)["rank"] == rank


def test_a_process_that_has_not_noticed_that_connections_were_closed_is_the_cause():
    judged, other = process(0, "failed", 12.0, cause=CLOSED), process(1, "failed", 12.1, cause=CLOSED)
    deaf = process(2, "stopped", 14.0, still_connected="w1")
    found = failed_process.cause([judged, other, deaf, process(3, "stopped", 14.0)], judged)
    assert describe_end(found) == "received no data (its connections to w1 were open after all processes there had ended)"
    assert (found["state"], found["finished"]) == ("failed", 12.0)
    assert found["cause"] == {"kind": failure_causes.NETWORK}
    two = [judged, deaf, process(3, "stopped", 14.0, still_connected="w1")]
    assert failed_process.cause(two, judged) == judged, "the network of the first host is the more likely cause"
    raised = process(1, "failed", 12.4, cause=RAISED)
    assert failed_process.cause([judged, raised, deaf], judged) == raised
    killed = process(0, "failed", 12.0, cause=killed_by("SIGKILL"))
    assert failed_process.cause([killed, deaf], killed) == killed


def test_a_process_that_has_raised_an_exception_and_does_not_end_is_the_cause():
    """Cleaning up after an exception can wait for the other ranks, which wait for an operation that the failed rank has not begun."""
    judged, hanging = process(0, "failed", 12.0, cause=TIMED_OUT), process(2, "stopped", 14.0, raised=RAISED)
    others = [process(1, "stopped", 14.0), process(3, "stopped", 14.0, raised={**RAISED, "what": "later"})]
    found = failed_process.cause([judged, *others[::-1], hanging], judged)
    assert attempt_cause({"failure": found}) == (
        "rank 2 on w3 raised an exception and did not end, so that the other ranks waited for it"
        " (NameError at train.py, line 42: name 'x' is not defined)"
    )
    assert (found["state"], found["finished"], found["cause"]) == ("failed", 12.0, RAISED)
    raised = process(1, "failed", 12.4, cause=RAISED)
    assert failed_process.cause([judged, hanging, raised], judged) == raised
    for other in ({"cause": killed_by("SIGSEGV")}, {"cause": {**TIMED_OUT, "hang": {"seconds": 9.0}}}):
        judged = process(0, "failed", 12.0, **other)
        assert failed_process.cause([judged, hanging], judged) == judged


def test_the_decision_names_the_process_that_ended_an_attempt_before_the_verdict_and_the_records():
    decided, judged, first = process(0, "stopped", 3.0), process(1, "stopped", 2.0), process(2, "failed", 1.0)
    verdict, processes = {"failure": judged}, [decided, judged, first]
    assert failed_process.last_failure(processes, verdict, {"failure": decided}) == decided
    assert failed_process.last_failure(processes, verdict, {}) == failed_process.last_failure(processes, verdict) == judged
    assert failed_process.last_failure(processes, None) == first


def test_a_job_that_succeeded_has_no_cause():
    assert failed_process.cause([process(0, "lost")], None) is None


def test_success_has_no_failure():
    assert failed_process.first_failure([process(0, "succeeded", 1.0), process(1, "running")]) is None


@pytest.mark.parametrize("part", ["spare", "standby"])
def test_a_spare_is_no_failure_unless_somebody_stopped_it(part):
    spare = {"part": part}
    assert failed_process.first_failure([process(0, "running"), process(1, "failed", 1.0, **spare)]) is None
    assert failed_process.first_failure([process(0, "running"), process(1, "stopped", 1.0, **spare)])["rank"] == 1


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, {"exit_code": 0}), (3, {"exit_code": 3}), (-1, {"signal": "SIGHUP"}), (-9, {"signal": "SIGKILL"}), (-40, {"signal": "40"})],
)
def test_what_a_record_keeps_of_a_return_code(code, expected):
    assert failed_process.outcome(code) == expected


def test_the_cause_of_a_failure_as_the_rules_see_it():
    cause = {"kind": "signal", "what": "SIGSEGV", "name": "SIGSEGV", "exit_code": 139}
    assert failed_process.recovery_cause(cause, "w1") == failure_causes.Cause("signal", "SIGSEGV", "w1", 139, "SIGSEGV")
    assert failed_process.recovery_cause({**cause, "alone": True}, "w1").alone is True
    assert failed_process.recovery_cause({}, "") == failure_causes.Cause(failure_causes.KILLED)
    full = {"path": "/ckpt", "problem": "space", "free": 0, "size": 1 << 30, "shared": False}
    assert failed_process.recovery_cause({"storage": [{**full, "more": 1}]}, "w1").storage == (
        StorageProblem("/ckpt", "space", 0, 1 << 30),
    )


@pytest.mark.parametrize(
    "cause",
    [
        {"kind": "script_error", "what": "RuntimeError at train.py, line 3", "name": "RuntimeError", "message": "Connection reset by peer"},
        {"kind": "signal", "what": "signal SIGABRT", "name": "SIGABRT", "message": "[gloo] Connection closed by peer"},
    ],
)
def test_a_connection_that_was_closed_twice_for_no_known_reason_costs_no_checkpoint_and_no_host(cause):
    found = failed_process.recovery_cause(cause, "w1")
    assert (found.kind, found.host, found.what) == (failure_causes.NETWORK, "", cause["what"])
    attempts = [recovery.FailedAttempt(found, False)] * 2
    policy = recovery.RestartPolicy(restarts=3, min_hosts=1)
    decision = recovery.decide(recovery.Situation(attempts, ["w1", "w2"], ["w1", "w2"], policy, "epoch-2", has_older=True))
    assert (decision.rule, decision.set_aside, decision.hosts) == ("same_hosts", "", ["w1", "w2"])
    own = failed_process.recovery_cause({**cause, "message": "index out of range"}, "w1")
    assert (own.kind, own.host) == (cause["kind"], "w1")
