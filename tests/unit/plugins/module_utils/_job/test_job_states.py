"""Tests of the states of jobs and processes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, failed_process, job_states

from .conftest import DECISION, ENDED, ENTRY, process, write


def in_states(*states, processes):
    """Return records of processes.

    `service:state` and `spare:state` describe services and spares, and a state without a prefix describes a worker.
    """
    parts = [state.rpartition(":")[::2] for state in states]
    return [{"name": f"rank{n}", "state": state, "part": part or "worker", "processes": processes} for n, (part, state) in enumerate(parts)]


@pytest.mark.parametrize(
    ("states", "processes", "expected"),
    [
        ([], 0, "pending"),
        (["running"], 3, "running"),
        (["succeeded"], 3, "running"),
        (["succeeded", "running"], 2, "running"),
        (["succeeded", "succeeded"], 2, "succeeded"),
        (["succeeded", "failed"], 3, "failed"),
        (["stopped", "failed", "lost"], 3, "failed"),
        (["running", "lost"], 2, "lost"),
        (["stopped", "succeeded"], 2, "stopped"),
        (["succeeded", "service:running"], 2, "succeeded"),
        (["running", "service:succeeded"], 2, "running"),
        (["running", "service:failed"], 2, "failed"),
        (["running", "service:lost"], 2, "lost"),
        (["running", "spare:failed"], 2, "running"),
        (["succeeded", "spare:lost", "spare:succeeded"], 3, "succeeded"),
        (["succeeded", "spare:running"], 2, "running"),
        (["running", "spare:stopped"], 2, "stopped"),
        (["running", "standby:failed"], 1, "running"),
        (["succeeded", "standby:lost"], 1, "succeeded"),
        (["succeeded", "standby:running"], 1, "succeeded"),
        (["succeeded", "standby:running"], 2, "running"),
        (["running", "standby:stopped"], 1, "stopped"),
        (["standby:running", "standby:lost"], 1, "running"),
        (["standby:lost"], 1, "lost"),
    ],
)
def test_state_of_a_job(states, processes, expected):
    assert job_states.job_state(in_states(*states, processes=processes)) == expected


@pytest.mark.parametrize(
    ("state", "age", "expected"),
    [
        ("running", 60, "running"),
        ("running", 60.5, "lost"),
        ("running", -300, "running"),
        ("running", -300.5, "lost"),
        ("succeeded", 9999, "succeeded"),
    ],
)
def test_silence_means_lost_only_while_running(state, age, expected):
    assert job_states.process_state({"state": state, "heartbeat": 1000.0}, 1000.0 + age, 60) == expected


def test_a_record_with_its_present_state():
    old = {"name": "rank0", "state": "running", "heartbeat": 1000.0}
    assert job_states.with_state(old, 1061.0, 60) == {**old, "state": "lost"}
    assert job_states.with_state(old, 1060.0, 60) == old


def test_a_host_is_on_standby_if_all_its_processes_are():
    parts = (("w1", "worker"), ("w3", "standby"), ("w2", "standby"), ("w1", "standby"), ("w3", "standby"), ("w4", "spare"))
    processes = [process(rank, "running", host=host, part=part) for rank, (host, part) in enumerate(parts)]
    assert job_states.standby_hosts(processes) == ["w3", "w2"]
    assert [each["part"] for each in job_states.participants(processes)] == ["worker", "spare"]


NOW = 1790000000.0


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "running"),
        ({"heartbeat": NOW - 60}, "running"),
        ({"heartbeat": NOW - 61}, "lost"),
        ({"heartbeat": NOW - 61, "state": "waiting"}, "lost"),
        ({"heartbeat": NOW + 300, "state": "waiting"}, "waiting"),
        ({"heartbeat": NOW + 301}, "lost"),
        ({"heartbeat": NOW - 61, "state": "succeeded", "finished": NOW - 61}, "succeeded"),
        ({"heartbeat": NOW - 61, "state": "failed", "error": "x"}, "failed"),
    ],
)
def test_the_state_of_an_export(tmp_path, monkeypatch, change, state):
    monkeypatch.setattr(job_states.time, "time", lambda: NOW)
    paths = directories.Paths(str(tmp_path))
    os.mkdir(paths.status)
    document = {"destination": "s3://results/team/digits/", "state": "running", "began": NOW, "heartbeat": NOW, "files": 0, **change}
    Path(paths.export).write_text(json.dumps(document))
    assert job_states.read_export(paths, 60) == {**document, "state": state}


@pytest.mark.parametrize(
    "change",
    [
        {"destination": "s3://results/\u001b[31m"},
        {"destination": "/etc"},
        {"destination": "s3://" + "a" * 1200},
        {"state": "lost"},
        {"began": "now"},
        {"heartbeat": None},
        {"finished": -1},
        *({key: -1} for key in ("files", "size", "uploaded", "uploaded_size", "changing", "omitted_count")),
        {"omitted": [1]},
        {"error": 5},
    ],
)
def test_an_invalid_state_of_an_export_is_none(tmp_path, change):
    paths = directories.Paths(str(tmp_path))
    assert job_states.read_export(paths, 60) is None
    os.mkdir(paths.status)
    document = {"destination": "s3://results/digits/", "state": "running", "began": NOW, "heartbeat": NOW, **change}
    Path(paths.export).write_text(json.dumps(document))
    assert job_states.read_export(paths, 60) is None


@pytest.mark.parametrize(
    ("restartable", "following", "now", "expected"),
    [
        (False, None, 1001.0, "failed"),
        (True, None, 1001.0, "running"),
        (True, None, 1100.0, "failed"),
        (True, {**DECISION, "action": "stop"}, 1001.0, "failed"),
        (True, {**DECISION, "action": "restart"}, 1001.0, "running"),
        (True, {**DECISION, "action": "restart"}, 1100.0, "failed"),
        (True, {**DECISION, "action": "restart", "decided": 1050.0}, 1100.0, "running"),
    ],
)
def test_a_job_that_is_about_to_be_restarted_is_running(job, monkeypatch, restartable, following, now, expected):
    monkeypatch.setattr(job_states.time, "time", lambda: now)
    write(job.record("rank0"), ENDED)
    os.utime(job.record("rank0"), (1000.0, 1000.0))
    write(job.verdict, {"state": "failed", "failure": ENDED, "restartable": restartable})
    if following:
        write(job.following, following)
    assert job_states.read_state(job, 60) == expected


@pytest.mark.parametrize(
    ("change", "now", "expected"),
    [
        ({"restartable": True}, 1001.0, "running"),
        ({"restartable": True}, 1060.0, "running"),
        ({"restartable": True}, 1060.1, "failed"),
        ({"restartable": True}, 1000.0 - job_states.CLOCK_LIMIT, "running"),
        ({"restartable": True, "available": False}, 1001.0, "failed"),
        ({"restartable": True, "state": "stopped"}, 1001.0, "stopped"),
        ({"restartable": True, "state": "succeeded"}, 1001.0, "succeeded"),
        ({}, 1001.0, "failed"),
    ],
)
def test_a_failure_ends_a_job_that_may_be_restarted_only_with_the_decision(job, monkeypatch, change, now, expected):
    monkeypatch.setattr(job_states.time, "time", lambda: now)
    write(job.record("rank0"), {**ENDED, **change})
    os.utime(job.record("rank0"), (1000.0, 1000.0))
    assert job_states.read_state(job, 60) == expected


CONNECTION = {"cause": {"kind": "script_error", "what": "RuntimeError", "message": "Connection reset by peer"}}
GONE = {"heartbeat": 8.0}


@pytest.mark.parametrize(
    ("verdict", "processes", "expected"),
    [
        pytest.param(process(1, "lost", **GONE), [process(0, "stopped", 30.0), process(1, "lost", **GONE)], "lost", id="a host is lost"),
        pytest.param(
            process(0, "failed", 12.0, **CONNECTION),
            [process(0, "failed", 12.0, **CONNECTION), process(1, "running", **GONE)],
            "running",
            id="a host is silent, and its peers have failed",
        ),
        pytest.param(
            process(0, "failed", 12.0, **CONNECTION),
            [process(0, "failed", 12.0, **CONNECTION), process(1, "lost", **GONE)],
            "lost",
            id="a host is lost, and its peers failed first",
        ),
        pytest.param(
            process(0, "failed", 12.0), [process(0, "failed", 12.0), process(1, "running", **GONE)], "running", id="its peers timed out"
        ),
        pytest.param(
            process(0, "failed", 12.0), [process(0, "failed", 12.0), process(1, "lost", **GONE)], "lost", id="they timed out first"
        ),
        pytest.param(None, [process(0, "failed", 12.0, **CONNECTION), process(1, "lost", **GONE)], "lost", id="without a verdict"),
        pytest.param(
            process(1, "failed", 12.0), [process(0, "stopped", 15.0), process(1, "failed", 12.0)], "failed", id="a supervisor is killed"
        ),
        pytest.param(
            process(1, "lost", **GONE),
            [process(0, "stopped", 30.0), process(1, "failed", 31.0)],
            "failed",
            id="a supervisor was killed, and its host recorded this late",
        ),
        pytest.param(
            process(0, "failed", 12.0),
            [process(0, "failed", 12.0), process(1, "running", heartbeat=12.5)],
            "failed",
            id="the others live",
        ),
        pytest.param(
            process(0, "failed", 12.0),
            [process(0, "failed", 12.0), process(1, "running", part="spare", **GONE)],
            "failed",
            id="a spare is silent",
        ),
        pytest.param(process(0, "running"), [process(0, "running")], "failed", id="a verdict that the job has written"),
    ],
)
def test_the_final_state_is_that_of_the_cause(verdict, processes, expected):
    """The order of the events does not matter."""
    failure = verdict or failed_process.first_failure(processes)
    state = verdict["state"] if verdict and verdict["state"] in ("failed", "lost") else "failed"
    for order in (processes, processes[::-1]):
        assert job_states.failed_state(state, order, failure) == expected


@pytest.mark.parametrize(
    ("following", "expected"),
    [
        (None, ""),
        ({"action": "restart", "failure": {"state": "lost"}}, ""),
        ({"action": "stop", "failure": {"state": "lost"}}, "lost"),
        ({"action": "stop", "failure": {"state": "failed"}}, "failed"),
        ({"action": "stop", "failure": {"state": "running"}}, "failed"),
        ({"action": "stop"}, "failed"),
    ],
)
def test_the_decision_of_the_hosts_is_final(following, expected):
    assert job_states.decided_state("failed", following) == expected


FAILED, SILENT = process(0, "failed", 12.0), process(1, "running", **GONE)
DECIDED = {"action": "stop", "failure": {"state": "lost"}}


@pytest.mark.parametrize(
    ("verdict", "processes", "following", "expected"),
    [
        ({"state": "stopped", "failure": FAILED}, [SILENT], DECIDED, "stopped"),
        ({"state": "failed", "failure": FAILED}, [SILENT], DECIDED, "lost"),
        ({"state": "failed", "failure": FAILED}, [SILENT], None, "running"),
        (None, [FAILED, SILENT], None, "running"),
        (None, [FAILED, SILENT], DECIDED, "lost"),
    ],
)
def test_the_decision_counts_more_than_the_verdict_and_the_verdict_more_than_the_records(verdict, processes, following, expected):
    assert job_states.final_state(verdict, processes, following) == expected


@pytest.mark.parametrize(("now", "expected"), [(1060.0, "running"), (1061.0, "lost")])
def test_a_job_without_a_verdict_has_the_state_of_its_processes(job, monkeypatch, now, expected):
    monkeypatch.setattr(job_states.time, "time", lambda: now)
    assert job_states.read_state(job, 60) == "pending"
    write(job.record("rank0"), {**ENDED, "state": "running", "finished": None})
    os.utime(job.record("rank0"), (1000.0, 1000.0))
    assert job_states.read_state(job, 60) == expected
    write(job.verdict, {"state": "stopped", "failure": {**ENDED, "state": "stopped"}})
    assert job_states.read_state(job, 60) == "stopped", "the processes have not ended yet"


@pytest.mark.parametrize(("now", "expected"), [(1001.0, "running"), (1100.0, "lost")])
def test_an_attempt_without_records_is_about_to_start_unless_that_takes_too_long(job, monkeypatch, now, expected):
    monkeypatch.setattr(job_states.time, "time", lambda: now)
    write(job.following, {**DECISION, "action": "restart"})
    os.makedirs(job.of_attempt(2).status)
    assert job_states.read_state(job, 60) == expected


@pytest.mark.parametrize(
    ("state", "entry", "expected"),
    [
        ("pending", {}, "queued"),
        ("running", {}, "running"),
        ("succeeded", {}, "succeeded"),
        ("pending", {"failure": "w1: no space"}, "failed"),
        ("stopped", {"failure": "w1: no space"}, "failed"),
    ],
)
def test_a_job_in_a_queue_waits_until_it_has_records(state, entry, expected):
    assert job_states.queued_state(state, {**ENTRY, **entry}) == expected
