"""Tests of the events of a job and their order."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.plugin_utils._report.events import events

from .reports import START, process, report


def test_events_are_told_in_their_order():
    entries = [{"step": 5, "loss": 1.0}, {"step": 3, "loss": float("nan")}]
    ended = {"stopped_for": "rank0"}
    processes = [
        process(0, "failed", signal="SIGKILL", finished=START + 40),
        process(1, "stopped", finished=START + 42, **ended),
        process(2, "stopped", finished=START + 43, **ended),
        process(3, "lost", heartbeat=START + 35),
    ]
    found = events(report(entries, processes=processes, state="failed"))
    assert [(event.time - START, event.text, event.bad) for event in found] == [
        (-3, "code copied", False),
        (3, "4 of 2 processes started on 4 hosts", False),
        (11, "went back from step 5 to 3", False),
        (11, "loss was NaN or infinite at step 3", True),
        (35, "rank 3 on deeplearning-worker4 has sent no heartbeat since 2026-09-21 14:13:55 UTC", True),
        (40, "rank 0 on deeplearning-worker1 was killed by signal SIGKILL", True),
        (43, "2 processes stopped because rank 0 on deeplearning-worker1 was killed by signal SIGKILL", False),
        (90, "job failed", True),
    ]


def test_processes_on_standby_are_not_counted():
    processes = [process(0, "running"), process(1, "running"), process(2, "running", part="standby")]
    assert "2 of 2 processes started on 2 hosts" in [event.text for event in events(report([], processes=processes, state="running"))]


def test_attempts_are_in_the_same_order():
    made = report([], processes=[process(0, "failed", exit_code=3, finished=START + 80)], state="failed")
    one = {"attempt": 1, "state": "failed", "started": START, "ended": START + 40, "hosts": 1, "logs": "/l", "action": "restart"}
    made["job"]["attempts"] = [
        {**one, "failure": {**process(0, "failed", signal="SIGKILL"), "host": "w1"}, "rule": "same_hosts"},
        {
            **one,
            "attempt": 2,
            "ended": START + 81,
            "action": "stop",
            "failure": process(0, "failed", exit_code=3),
            "rule": "operator",
        },
    ]
    made["job"]["attempt"] = 2
    assert [(event.time - START, event.text, event.bad) for event in events(made)][2:] == [
        (40, "attempt 1 failed: rank 0 on w1 was killed by signal SIGKILL", True),
        (40, "restart: The job continues on the same hosts.", False),
        (80, "rank 0 on deeplearning-worker1 ended with exit status 3", True),
        (81, "stop: An operator stopped the job.", True),
        (90, "job failed", True),
    ]
