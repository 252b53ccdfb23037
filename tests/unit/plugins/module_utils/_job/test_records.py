"""Names, files and states of jobs and their processes."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records


@pytest.mark.parametrize("name", ["a", "digits", "digits-2", "2026", "a" * 63])
def test_names(name):
    assert records.check_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a/b", "../a", "a b", "a\n", "a.b", "ü", "a" * 64])
def test_what_is_not_a_name(name):
    with pytest.raises(ValueError, match="is not a job name"):
        records.check_name(name)


def test_no_jobs_slice_is_inside_that_of_another():
    names = ["a", "a-b", "a-b-c", "ab"]
    slices = [records.slice_name(name) for name in names]
    assert len(set(slices)) == len(names)
    assert all(name.count("-") == 1 for name in slices)


def in_states(*states, processes):
    """Return records: a state is that of a worker, C(service:state) and C(spare:state) those of others."""
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
    ],
)
def test_state_of_a_job(states, processes, expected):
    assert records.job_state(in_states(*states, processes=processes)) == expected


@pytest.mark.parametrize(
    ("state", "age", "expected"), [("running", 59, "running"), ("running", 61, "lost"), ("succeeded", 9999, "succeeded")]
)
def test_silence_means_lost_only_while_running(state, age, expected):
    assert records.process_state({"state": state, "heartbeat": 1000.0}, 1000.0 + age, 60) == expected


def record(rank):
    return {"ranks": [rank], "processes": 2, **process(rank, "running"), "heartbeat": 1.0, "finished": None}


def process(rank, state, finished=None, **more):
    return {
        "rank": rank,
        "name": f"rank{rank}",
        "part": "worker",
        "host": f"w{rank + 1}",
        "state": state,
        "finished": finished,
        "started": 0.0,
        "heartbeat": finished or 5.0,
        **more,
    }


def test_the_earliest_failure_is_the_first_whatever_its_rank():
    found = records.first_failure([process(0, "failed", 12.0), process(1, "stopped", 3.0), process(2, "failed", 11.5)])
    assert found["rank"] == 2


def test_a_lost_process_comes_before_those_that_were_stopped():
    assert records.first_failure([process(0, "stopped", 1.0), process(1, "lost")])["rank"] == 1


def test_success_has_no_failure():
    assert records.first_failure([process(0, "succeeded", 1.0), process(1, "running")]) is None


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"state": "failed", "exit_code": 3}, "ended with exit status 3"),
        ({"state": "failed", "signal": "SIGKILL"}, "was killed by signal SIGKILL"),
        ({"state": "failed", "reason": "reached its time limit of 5 s", "signal": "SIGTERM"}, "reached its time limit of 5 s"),
        ({"state": "lost", "heartbeat": 1767225600.5}, "has not been heard of since 2026-01-01 00:00:00 UTC"),
    ],
)
def test_how_a_process_ended(record, words):
    assert records.describe_end(record) == words


def test_records_are_sorted_by_number_and_broken_ones_left_out(tmp_path):
    paths = records.Paths(str(tmp_path))
    assert records.read_records(paths) == []
    (tmp_path / "status").mkdir()
    for rank in (10, 2):
        (tmp_path / f"status/rank{rank}.json").write_text(json.dumps(record(rank)))
    (tmp_path / "status/rank3.json").write_text("{")
    (tmp_path / "status/rank4.json.host.17").write_text("{}")
    (tmp_path / "status/over").write_text("{}")
    problems = []
    assert [found["rank"] for found in records.read_records(paths, problems)] == [2, 10]
    assert [problem.split(": ")[0] for problem in problems] == [f"record '{tmp_path}/status/rank3.json' is skipped"]


@pytest.mark.parametrize("name", ["rank0", "ps12", "scheduler"])
def test_no_unit_of_one_job_has_the_name_of_anothers(name):
    assert records.PROCESS_NAME.fullmatch(name)
    assert not records.PROCESS_NAME.fullmatch("a-" + name)
    assert records.unit_name("digits", name) == f"deeplearning-digits-{name}.service"


@pytest.mark.parametrize(("name", "words"), [("rank0", "rank 0"), ("ps12", "ps 12"), ("scheduler", "scheduler")])
def test_title(name, words):
    assert records.title(name) == words


def test_a_spare_is_no_failure_unless_somebody_stopped_it():
    spare = {"part": "spare"}
    assert records.first_failure([process(0, "running"), process(1, "failed", 1.0, **spare)]) is None
    assert records.first_failure([process(0, "running"), process(1, "stopped", 1.0, **spare)])["rank"] == 1


def test_a_record_that_is_only_touched_is_a_heartbeat(tmp_path):
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(record(0)))
    os.utime(path, (5.0, 5.0))
    assert records.read_record(str(path))["heartbeat"] == 5.0
