"""Tests that check which jobs prevent the removal of nodes."""

from __future__ import annotations

import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.filter.jobs_on import START_TIMEOUT, jobs_on
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.job_states import CLOCK_LIMIT


def job(states, *, state="running", expected=None, age=0):
    """Return a job with processes in the given states on the hosts a, b and c."""
    processes = [{"host": host, "state": each} for host, each in zip("abc", states)]
    count = len(processes) if expected is None else expected
    return {"name": "digits", "state": state, "created": time.time() - age, "process_count": count, "processes": processes}


RUNNING = ("running", "running", "running")


@pytest.mark.parametrize(
    ("found", "hosts", "words"),
    [
        pytest.param(job(RUNNING), ["c"], "digits runs on c", id="on a host that goes"),
        pytest.param(job(RUNNING), ["d", "c", "b"], "digits runs on c, b", id="on some of those that go"),
        pytest.param(job(RUNNING, age=10**6), ["c"], "digits runs on c", id="for days"),
        pytest.param(job(RUNNING[:2]), ["c"], None, id="on hosts that stay"),
        pytest.param(job(RUNNING), [], None, id="no host goes"),
        pytest.param(job(("running", "running", "lost")), ["c"], None, id="an elastic job goes on without it"),
        pytest.param(job(("running", "running", "succeeded")), ["c"], None, id="its process there has ended"),
        pytest.param(job(RUNNING[:1], expected=3), ["c"], "digits is starting", id="not all have started"),
        pytest.param(job((), state="pending"), ["c"], "digits is starting", id="none has started yet"),
        pytest.param({**job((), state="pending"), "printed": True}, ["c"], None, id="its commands were only printed"),
        pytest.param({**job(RUNNING[:1], expected=3), "printed": True}, ["c"], "digits is starting", id="printed, but it starts"),
        *(
            pytest.param({**job((), state="pending"), "printed": flag}, ["c"], "digits is starting", id=f"not printed: {flag!r}")
            for flag in (False, None, 1, "true")
        ),
        pytest.param(job((), state="pending", age=-300), ["c"], "digits is starting", id="by clocks that differ"),
        pytest.param(job((), state="pending", age=START_TIMEOUT + 1), ["c"], None, id="it never started"),
        pytest.param(job((), state="pending", age=-2 * START_TIMEOUT), ["c"], None, id="created in the future"),
        pytest.param(job(("succeeded",), expected=3, age=START_TIMEOUT + 1), ["c"], None, id="one has ended and no other has come"),
        pytest.param(job(RUNNING[:1], expected=3, age=START_TIMEOUT + 1), ["c"], None, id="the others never came"),
        pytest.param(job(RUNNING[:1], expected=3, age=START_TIMEOUT + 1), ["a"], "digits runs on a", id="the first one has come"),
        *(
            pytest.param(job(("running", "running", state), state=state), ["c"], None, id=state)
            for state in ("succeeded", "failed", "stopped", "lost")
        ),
    ],
)
def test_a_job_counts_where_it_runs_or_may(found, hosts, words):
    assert jobs_on([found], hosts, {}) == ([{"name": "digits", "words": words}] if words else [])


def test_a_job_uses_its_spares_but_does_not_start_with_them():
    found = job(RUNNING, expected=2)
    found["processes"][2]["part"] = "standby"
    assert jobs_on([found], ["c"], {}) == [{"name": "digits", "words": "digits runs on c"}]
    del found["processes"][1]
    assert jobs_on([found], ["b"], {}) == [{"name": "digits", "words": "digits is starting"}]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "digits",
        {"name": "digits"},
        [None, 3, "digits", [], {}, {"name": None}, {"name": ["x"]}, {"name": "../x"}, {"name": "x\n"}, {"name": "\x1b[2J"}, {"name": "X"}],
        [{"name": "digits"}, {"name": "digits", "state": ["running"]}, {"name": "digits", "state": {"running": 1}}],
    ],
)
def test_what_is_no_record_of_a_job_is_left_out(answer):
    assert jobs_on(answer, ["c"], {}) == []
    if isinstance(answer, list):
        assert [found["name"] for found in jobs_on([*answer, {**job(RUNNING), "name": "real"}], ["c"], {})] == ["real"]


@pytest.mark.parametrize(
    "change",
    [
        {"processes": None},
        {"processes": "abc"},
        {"processes": [1, None, {"state": "running"}, {"host": ["c"], "state": "running"}]},
        {"process_count": "3"},
        {"process_count": None},
        {"process_count": 4},
        {"state": "pending", "created": "now"},
        {"state": "pending", "created": None},
        {"state": "pending", "created": float("nan")},
    ],
)
def test_a_job_whose_record_is_broken_may_run_anywhere(change):
    assert jobs_on([{**job(RUNNING), **change}], ["d"], {}) == [{"name": "digits", "words": "digits is starting"}]


@pytest.mark.parametrize(("ago", "counts"), [(0, True), (START_TIMEOUT + 1, False), (-START_TIMEOUT - 1, False)])
def test_a_job_that_starts_long_after_it_was_prepared(ago, counts):
    late = job(RUNNING[:1], expected=3, age=10**6)
    late["processes"][0]["started"] = time.time() - ago
    assert bool(jobs_on([late], ["c"], {})) is counts


@pytest.mark.parametrize(
    ("found", "hosts", "running", "words"),
    [
        pytest.param(job(RUNNING), ["c"], {"c": []}, None, id="only its records say so"),
        pytest.param(job(RUNNING[:1], expected=3), ["c"], {"c": []}, None, id="only its records say that it starts"),
        pytest.param(job(RUNNING[:1], expected=3), ["c"], {"a": ["digits"], "c": []}, "digits is starting", id="it starts"),
        pytest.param(job((), state="pending"), ["c"], {"c": []}, "digits is starting", id="it was prepared just now"),
        pytest.param(job(("succeeded",) * 3, state="succeeded"), ["c"], {"c": ["digits"]}, "digits runs on c", id="its records deny it"),
        pytest.param(None, ["b", "c"], {"b": [], "c": ["digits"]}, "digits runs on c", id="without records"),
        pytest.param(None, ["b", "c"], {"a": ["digits"], "b": []}, "digits may run on c", id="without records, and c is silent"),
        pytest.param(None, ["b"], {"a": ["digits"], "b": []}, None, id="without records on a host that stays"),
        pytest.param(job(RUNNING), ["b", "c"], {"b": []}, "digits runs on c", id="its records say so, and c is silent"),
        pytest.param(None, ["c"], {"c": ["../x", "X", "\x1b"]}, None, id="names that no job can have"),
    ],
)
def test_units_decide_for_the_hosts_that_have_answered(found, hosts, running, words):
    assert jobs_on([found] if found else [], hosts, running) == ([{"name": "digits", "words": words}] if words else [])


def test_heartbeats_in_the_future_keep_no_silent_host():
    """An ended job could write records that are valid one after the other."""
    found = job(RUNNING)
    for index, process in enumerate(found["processes"]):
        process["heartbeat"] = time.time() + index * CLOCK_LIMIT
    assert jobs_on([found], ["c"], {}) == []


def test_every_job_in_the_way_is_named():
    jobs = [{**job(RUNNING), "name": "new"}, job(RUNNING[:1]), {**job(RUNNING[:2]), "name": "old"}]
    assert [found["name"] for found in jobs_on(jobs, ["b", "c"], {})] == ["new", "old"]
