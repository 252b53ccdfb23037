"""Tests of the choice of a job's hosts."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.filter.job_hosts import job_hosts


def results(excluded=(), state="new", **more):
    """Return the results of four hosts. `more` are values that each host returns."""
    return {
        f"w{number}": {"host": {"number": number}, "job_state": state, "excluded": "since noon." if number in excluded else "", **more}
        for number in range(1, 5)
    }


def chosen(given, **options):
    found = job_hosts(given, **options)
    return [host["number"] for host in found["hosts"]], found["required"], found["spares"]


@pytest.mark.parametrize(
    ("given", "options", "expected"),
    [
        (results(), {}, ([1, 2, 3, 4], 4, 0)),
        (results(), {"spares": "1"}, ([1, 2, 3, 4], 3, 1)),
        (results(excluded=[2]), {"spares": 1}, ([1, 3, 4], 3, 0)),
        (results(excluded=[2, 3]), {"spares": 1}, ([1, 4], 3, 0)),
        (results(excluded=[2]), {"min_hosts": "2"}, ([1, 3, 4], 2, 0)),
        (results(excluded=[2]), {"min_hosts": 2, "queue": "slurm"}, ([1, 3, 4], 4, 0)),
        (results(excluded=[2], state="running"), {}, ([1, 2, 3, 4], 4, 0)),
        ({}, {}, ([], 0, 0)),
    ],
)
def test_spares_and_hosts_beyond_the_minimum_take_the_place_of_excluded_hosts(given, options, expected):
    assert chosen(given, **options) == expected


def test_each_excluded_host_has_a_sentence():
    assert job_hosts(results(excluded=[2]))["excluded"] == ["w2 has been excluded from jobs since noon."]
    assert job_hosts(results())["excluded"] == []


def test_hosts_can_only_name_jobs_and_queues():
    found = job_hosts(results(other_jobs=["b", "--help", "a", "x y", "\x1b"], queues=["yarn", "slurm", "none"]))
    assert (found["other_jobs"], found["queues"]) == (["a", "b"], ["slurm", "yarn"])


def test_the_first_reason_for_a_missing_description_counts():
    assert job_hosts(results())["unprepared"] == ""
    assert job_hosts({**results(), "w5": {"msg": "no systemd"}, "w6": {}})["unprepared"] == "no systemd"
    assert job_hosts({"w1": {}})["unprepared"] == "could not be reached"
