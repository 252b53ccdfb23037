"""Tests that hangs are detected, and that the rank that causes a hang is identified."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import failure_causes, hangs
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.hangs import Activity
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import reason

HUNG = {"seconds": 9.0}
NO_PROGRESS = "made no progress for 9 s, with no output, reported step or checkpoint"


def entry(step):
    return {"step": step, "steps": 1000}


def stepping(duration, count, steps=3, timeout=0):
    """Return the activity of a job that reports `count` steps from second 100 on, and the time of the last step."""
    activity = Activity(0.0, timeout, steps)
    for step in range(count):
        activity.add([entry(step)], 100 + step * duration)
    return activity, 100 + (count - 1) * duration


@pytest.mark.parametrize(("duration", "limit"), [(2.0, 12.0), (0.1, 6.3), (600.0, 1806.0)])
def test_a_job_hangs_after_a_multiple_of_its_median_step(duration, limit):
    activity, last = stepping(duration, 6)
    assert activity.hang(last + limit - 0.01) is None
    assert activity.hang(last + limit + 0.01) == {"seconds": pytest.approx(limit + 0.01), "median": pytest.approx(duration)}


def test_a_hang_is_suspected_before_the_job_counts_as_hanging():
    activity, last = stepping(1.0, 6)
    assert (activity.suspects_hang(last + 4.9), activity.suspects_hang(last + 5.1)) == (False, True)
    activity.add([entry(6)], last + 6)
    assert not activity.suspects_hang(last + 10.9)
    activity.add([{"phase": "evaluation"}], last + 11)
    assert not activity.suspects_hang(last + 1e6)


def test_the_multiple_is_an_option():
    activity, last = stepping(10.0, 6, steps=5)
    assert not activity.hang(last + 55.9)
    assert activity.hang(last + 56.1)


def test_steps_are_not_judged_before_there_are_enough():
    """The start of an attempt, before the first step, does not count as a step."""
    activity, last = stepping(1.0, 5)
    assert not activity.hang(last + 1e6)
    activity, last = stepping(1.0, 6)
    assert activity.hang(last + 1e6)


def test_steps_count_even_if_the_first_ones_are_read_together():
    """Their durations are unknown, because the duration of the first step contains the start of the attempt."""
    activity = Activity(0.0, 0, 3)
    activity.add([entry(1), entry(2), entry(3)], 100)
    activity.add([entry(4), entry(5)], 102)
    assert not activity.hang(1e6)
    activity.add([entry(6)], 103)
    assert activity.hang(103 + 9.1) == {"seconds": pytest.approx(9.1), "median": 1.0}
    together = Activity(0.0, 0, 3)
    together.add([entry(step) for step in range(9)], 100)
    assert not together.hang(1e6)


def test_a_single_slow_step_does_not_change_the_median():
    activity, last = stepping(1.0, 7)
    activity.add([entry(7)], last + 5)
    assert not activity.hang(last + 5 + 8.9)
    assert activity.hang(last + 5 + 9.1)


def test_steps_between_two_polls_share_the_time():
    activity = Activity(0.0, 0, 3)
    for poll in range(3):
        activity.add([entry(10 * poll + number) for number in range(10)], 100 + 20 * poll)
    assert activity.hang(140 + 12.1) == {"seconds": pytest.approx(12.1), "median": 2.0}
    assert not activity.hang(140 + 11.9)


@pytest.mark.parametrize(("slow", "median"), [(50, 1), (51, 100)])
def test_the_median_is_that_of_the_last_101_steps(slow, median):
    activity, last = stepping(1.0, 200)
    for step in range(slow):
        last += 100
        activity.add([entry(200 + step)], last)
    assert not activity.hang(last + 3 * median + 5)
    assert activity.hang(last + 3 * median + 7)


@pytest.mark.parametrize(
    "other",
    [
        {"phase": "evaluation"},
        {"step": 6, "steps": 6},
        {"step": 6},
        {"step": 6, "steps": "9"},
        *({"step": step, "steps": 9} for step in (None, "6", True, float("nan"))),
    ],
)
def test_an_entry_without_a_step_or_an_end_and_the_last_step_suspend_the_check(other):
    activity, last = stepping(1.0, 6)
    activity.add([other], last + 1)
    assert not activity.hang(last + 1e6)
    activity.add([{"step": 7, "steps": 9}], last + 1)
    assert activity.hang(last + 1e6)


def test_the_same_step_again_is_no_new_step():
    activity, last = stepping(1.0, 6)
    activity.add([entry(5)] * 9, last + 8)
    assert activity.hang(last + 9.1)
    activity.add([entry(2)], last + 10)
    assert not activity.hang(last + 10), "a script that goes back makes progress"


def test_without_steps_every_sign_of_activity_counts():
    activity = Activity(0.0, 30, 0)
    assert not activity.hang(30)
    assert activity.hang(31) == {"seconds": 31}
    activity.see(("log", 1), 40)
    activity.see(("log", 1), 60)
    assert activity.hang(71)
    activity.see(("log", 2), 71)
    assert not activity.hang(101)
    activity.add([{"loss": 1}], 101)
    activity.add([], 110)
    assert not activity.hang(131)
    assert activity.hang(132) == {"seconds": 31}
    assert activity.needs_signs(101)


def test_a_pause_between_steps_is_no_hang_before_the_minimum():
    """By default, a script may evaluate or save a checkpoint for a long time after a step, without announcing it."""
    activity = Activity(0.0, 0, 3, 300)
    for step in range(6):
        activity.add([entry(step)], 100.0 + step)
    assert (activity.needs_signs(105 + 4.9), activity.needs_signs(105 + 5.1)) == (False, True)
    assert (activity.suspects_hang(105 + 295.9), activity.suspects_hang(105 + 296)) == (False, True)
    assert not activity.hang(105 + 299.9)
    assert activity.hang(105 + 300) == {"seconds": 300, "median": 1.0}
    activity.see(("output", 1), 115)
    activity.see(("output", 1), 200)
    assert activity.hang(405.1), "signs that are seen for the first time are no activity"
    activity.see(("output", 2), 400)
    assert not activity.hang(699.9)
    assert activity.hang(700.1) == {"seconds": pytest.approx(595.1), "median": 1.0}


def test_without_a_minimum_output_does_not_replace_a_step():
    activity, last = stepping(1.0, 6)
    for number in range(2):
        activity.see(("output", number), last + 10)
    assert activity.hang(last + 10)


def test_the_minimum_does_not_shorten_the_time_for_long_steps():
    activity = Activity(0.0, 0, 3, 300)
    for step in range(6):
        activity.add([entry(step)], 200.0 * step)
    assert not activity.hang(1000 + 605.9)
    assert activity.hang(1000 + 606.1)


def test_nothing_is_a_hang_if_it_is_not_asked_for():
    activity, last = stepping(1.0, 50, steps=0)
    assert not activity.hang(last + 1e9)


def rank(number, where="train.py, line 9", waits=False, suspended=False, silent=0, error=""):
    found = {"rank": number, "where": where, "waits": waits, "suspended": suspended}
    return {**found, **({"silent_peers": silent} if silent else {}), **({"error": error} if error else {})}


@pytest.mark.parametrize(
    ("ranks", "active", "odd"),
    [
        ([rank(0), rank(1, suspended=True)], [0, 0], 1),
        ([rank(0, waits=True), rank(1), rank(2, suspended=True)], [0, 0, 0], 2),
        ([rank(0, waits=True), rank(1)], [0, 0], 1),
        ([rank(0), rank(1, "x"), rank(2)], [0, 0, 0], 1),
        ([rank(0, waits=True), rank(1, "x", waits=True), rank(2, waits=True)], [0, 0, 0], 1),
        ([rank(0), rank(1, "x")], [0, 0], None),
        ([rank(0), rank(1, "x"), rank(2, "y")], [0, 0, 0], None),
        ([rank(0), rank(1), rank(2, "x"), rank(3, "y")], [0, 0, 0, 0], 2),
        ([rank(0), rank(1), rank(2)], [0, 0, 0], None),
        ([rank(0), rank(1), rank(2)], [10, 4, 10], 1),
        ([rank(0), rank(1), rank(2)], [10, 5, 10], None),
        ([rank(0), rank(1, "x")], [10, 1], None),
        ([rank(0)], [0], None),
        ([], [], None),
        ([rank(0, suspended=True), rank(1, suspended=True), rank(2)], [7, 6, 9], 1),
        ([rank(0, suspended=True), rank(1, suspended=True), rank(2, "x")], [7, 7, 9], 0),
        ([rank(0, waits=True), rank(1, "x"), rank(2, "y"), rank(3, "y")], [9, 9, 1, 1], 1),
        ([rank(0, suspended=True), rank(1, suspended=True)], [0, 0], None),
        ([rank(0, silent=33), rank(1, silent=100), rank(2)], [0, 0, 0], 1),
        ([rank(0, silent=100), rank(1, silent=100)], [0, 0], None),
        ([rank(0, silent=50), rank(1, silent=50), rank(2)], [0, 0, 0], None),
        ([rank(0, waits=True, silent=50), rank(1), rank(2, waits=True)], [0, 0, 0], 0),
        ([rank(0, silent=100), rank(1, suspended=True)], [0, 0], 1),
        # A rank that has failed waits for the others while it ends, and the others wait for the operation that it has not begun.
        ([rank(0, "a", waits=True, error="OSError"), rank(1, "b", waits=True)], [0, 0], 0),
        ([rank(0, "a", waits=True, error="OSError"), rank(1), rank(2, waits=True)], [0, 0, 0], 0),
        ([rank(0, error="OSError"), rank(1, suspended=True)], [0, 0], 1),
        ([rank(0, "a", error="OSError"), rank(1, "a", error="OSError")], [0, 0], None),
    ],
)
def test_the_odd_rank_is_named(ranks, active, odd):
    assert hangs.find_odd(ranks, active) == odd


def process(number, *stuck, ranks=None):
    record = {
        "name": f"rank{number}",
        "ranks": [number] if ranks is None else ranks,
        "host": f"w{number}",
        "state": "running",
        "part": "worker",
    }
    return {**record, "started": 1.0, "heartbeat": 9.0, **({"stuck": list(stuck)} if stuck else {})}


@pytest.mark.parametrize(
    ("processes", "name", "details", "cause"),
    [
        (
            [process(0, rank(0, "a")), process(1, rank(1, "b")), process(2, rank(2, "a"))],
            "rank1",
            "it is at b; all other ranks are at a",
            {"what": "a hang at b", "name": "rank 1"},
        ),
        (
            [process(0, rank(0, "a", waits=True)), process(1, rank(1, "b"))],
            "rank1",
            "it is at b; the other rank is at a",
            {"what": "a hang at b", "name": "rank 1"},
        ),
        (
            [process(0, rank(0, "a", suspended=True)), process(1, rank(1, ""))],
            "rank0",
            "it is suspended",
            {"what": "a hang at a", "name": "rank 0"},
        ),
        (
            [process(0, rank(0, "a", suspended=True)), process(1, rank(1, "b")), process(2, rank(2, "c"))],
            "rank0",
            "it is suspended; 1 other rank is at b",
            {"what": "a hang at a", "name": "rank 0"},
        ),
        (
            [process(0, *(rank(each, "a") for each in (0, 1)), ranks=[0, 1]), process(1, rank(2, "b"), rank(3, "c"), rank(4, "a"))],
            "rank1",
            "rank 2 is at b; 3 other ranks are at a",
            {"what": "a hang at b", "name": "rank 2"},
        ),
        (
            [process(0, rank(0, "a", silent=50)), process(1, rank(1, "a", silent=100)), process(2, rank(2, "a"))],
            "rank1",
            "100 % of the connected hosts do not acknowledge its data; it is at a; all other ranks are at a",
            {"what": "a hang at a", "name": "rank 1"},
        ),
        ([process(0, rank(0, "a")), process(1, rank(1, "a"))], "rank0", "all ranks are at a", {"what": "a hang at a"}),
        ([process(0, rank(0, "a"))], "rank0", "it is at a", {"what": "a hang at a"}),
        ([process(0, rank(0, "a")), process(1, rank(1, "b"))], "rank0", "it is at a", {"what": "a hang at a"}),
        ([process(0, rank(0, "a", silent=100)), process(1, rank(1, "b", silent=100))], "rank0", "it is at a", {"what": "a hang at a"}),
        ([process(0, rank(0, "")), process(1)], "rank0", "", {"what": "a hang"}),
        ([process(0), process(1)], "rank0", "", {"what": "a hang"}),
    ],
)
def test_the_process_is_described(processes, name, details, cause):
    found = hangs.hung_process(processes, HUNG, 77.0)
    assert (found["name"], found["state"], found["finished"]) == (name, "failed", 77.0)
    assert reason(found) == NO_PROGRESS + (f" ({details})" if details else "")
    assert {key: value for key, value in found["cause"].items() if key != "hang"} == {"kind": failure_causes.HANG, **cause}


def test_an_exception_at_the_end_of_the_log_is_named():
    error = "OSError at train.py, line 55: no such shard"
    processes = [process(0, rank(0, "a", waits=True, error=error)), process(1, rank(1, "b", waits=True))]
    end = f", and its log ends with {error}"
    assert reason(hangs.hung_process(processes, HUNG, 77.0)) == f"{NO_PROGRESS} (it is at a; the other rank is at b){end}"
    assert reason(hangs.hung_process([process(0, rank(0, "", error=error))], HUNG, 77.0)) == f"{NO_PROGRESS}{end}"


def test_the_process_that_has_been_silent_the_longest_is_named():
    processes = [{**process(0, rank(0, "a")), "active": 60.0}, {**process(1, rank(1, "a")), "active": 20.0}]
    assert reason(hangs.hung_process(processes, HUNG, 77.0)) == f"{NO_PROGRESS} (it is at a; the other rank is at a)"
    assert hangs.hung_process(processes, HUNG, 77.0)["name"] == "rank1"


def test_a_parameter_server_is_the_cause_only_if_it_is_suspended():
    workers = [process(0, rank(0, "a")), process(1, rank(1, "a"))]
    server = {**process(2, rank(2, "b")), "part": "service"}
    assert reason(hangs.hung_process([*workers, server], HUNG, 77.0)) == f"{NO_PROGRESS} (all ranks are at a)"
    server["stuck"] = [rank(2, "b", suspended=True)]
    assert hangs.hung_process([*workers, server], HUNG, 77.0)["name"] == "rank2"
    daemon = {**process(2, rank(2, "b"), ranks=[]), "part": "service"}
    assert hangs.hung_process([*workers, daemon], HUNG, 77.0)["name"] == "rank2"


def test_output_during_a_long_pause_counts_however_long_steps_are():
    """A script with steps of two minutes evaluates for seven minutes, and writes output every half minute."""
    activity = Activity(0.0, 0, 3, 300)
    for step in range(7):
        activity.add([entry(step)], 120.0 * step)
    for seconds in range(0, 430, 2):
        now = 720.0 + seconds
        if activity.needs_signs(now):
            activity.see(("output", seconds // 30), now)
        assert not activity.hang(now), seconds
    activity.see(("output", 14), 720.0 + 719)
    assert activity.hang(720.0 + 721), "no output for 300 s"
