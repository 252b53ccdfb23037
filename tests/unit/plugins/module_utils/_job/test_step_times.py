"""Tests that check which hosts count as slower than the other hosts."""

from __future__ import annotations

import math

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.step_times import (
    LAST_TIMES,
    RANKS_LIMIT,
    StepTimes,
    hosts_of_ranks,
)


def times(*entries, hosts=None):
    found = StepTimes()
    for entry in entries:
        found.add(entry if isinstance(entry, dict) else {"rank_seconds": entry})
    return [(each["name"], each["seconds"], each["slow"]) for each in found.result({0: "a", 1: "b", 2: "c"} if hosts is None else hosts)]


def test_a_host_that_needs_more_than_six_fifths_of_the_median_is_slow():
    assert times([1.0, 1.0, 1.21]) == [("c", 1.21, True), ("a", 1.0, False), ("b", 1.0, False)]
    assert times([1.0, 1.0, 1.2]) == [("c", 1.2, False), ("a", 1.0, False), ("b", 1.0, False)]
    assert times([2.0, 1.0]) == [("a", 2.0, True), ("b", 1.0, False)]


def test_a_difference_of_less_than_two_milliseconds_is_chance():
    assert times([0.001, 0.001, 0.0029]) == [("c", 0.0029, False), ("a", 0.001, False), ("b", 0.001, False)]
    assert times([0.001, 0.001, 0.0031])[0] == ("c", 0.0031, True)


def test_the_time_of_a_rank_is_the_median_of_its_last_times():
    assert times([9.0], *[[1.0]] * 2) == [("a", 1.0, False)]
    assert times(*[[9.0]] * LAST_TIMES, *[[1.0]] * (LAST_TIMES // 2)) == [("a", 9.0, False)]
    assert times(*[[9.0]] * LAST_TIMES, *[[1.0]] * (LAST_TIMES // 2 + 1)) == [("a", 1.0, False)]


def test_a_host_is_as_slow_as_its_slowest_rank():
    assert times([1.0, 3.0, 1.0, 1.0], hosts={0: "a", 1: "a", 2: "b", 3: "b"}) == [("a", 3.0, True), ("b", 1.0, False)]
    assert times([3.0, 1.0], hosts={0: "a", 1: "a"}) == [("a", 3.0, False)]


def test_ranks_whose_hosts_are_not_known_are_named():
    assert times([1.0, 2.0], hosts={}) == [("rank 1", 2.0, True), ("rank 0", 1.0, False)]


@pytest.mark.parametrize("value", [None, True, "1", -1, 86401, math.nan, math.inf, [1], 10**400])
def test_what_is_no_time_does_not_count(value):
    assert times([1.0, value]) == [("a", 1.0, False)]
    assert times([value]) == []
    assert times({"rank_seconds": value} if value != [1] else {}) == []
    assert times({"step": 1}, {"rank_seconds": []}) == []
    assert times([0, 86400]) == [("b", 86400, False), ("a", 0, False)]


def test_entries_may_have_different_numbers_of_ranks():
    assert times([1.0], [1.0, 1.0, 4.0], [3.0]) == [("c", 4.0, True), ("a", 1.0, False), ("b", 1.0, False)]
    assert len(times([1.0] * (RANKS_LIMIT + 5), hosts={})) == RANKS_LIMIT


def record(host, *ranks, part="worker"):
    return {"host": host, "ranks": list(ranks), "part": part}


@pytest.mark.parametrize(
    ("processes", "hosts"),
    [
        ([], {}),
        ([record("a", 0, 1), record("b", 2)], {0: "a", 1: "a", 2: "b"}),
        ([record("a", 0, 1), record("b", part="service")], {}),
        ([record("a", 0, 1), record("b", 1, 2)], {}),
        ([record("a", 0, 1), record("b", 0, 1, part="spare")], {}),
        ([record("a", 0), record("b", 1), record("c", part="standby")], {0: "a", 1: "b"}),
    ],
)
def test_the_hosts_of_ranks_are_known_only_if_each_rank_has_one_record(processes, hosts):
    assert hosts_of_ranks(processes) == hosts
