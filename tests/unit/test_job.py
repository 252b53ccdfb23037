"""Names, files and states of jobs."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils import job


@pytest.mark.parametrize("name", ["a", "digits", "digits-2", "2026", "a" * 63])
def test_names(name):
    assert job.check_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a/b", "../a", "a b", "a\n", "a.b", "ü", "a" * 64])
def test_what_is_not_a_name(name):
    with pytest.raises(ValueError, match="is not a job name"):
        job.check_name(name)


def test_no_jobs_slice_is_inside_that_of_another():
    names = ["a", "a-b", "a-b-c", "ab"]
    slices = [job.slice_name(name) for name in names]
    assert len(set(slices)) == len(names)
    assert all(name.count("-") == 1 for name in slices)


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
    ],
)
def test_state_of_a_job(states, processes, expected):
    assert job.job_state(states, processes) == expected


@pytest.mark.parametrize(
    ("state", "age", "expected"), [("running", 59, "running"), ("running", 61, "lost"), ("succeeded", 9999, "succeeded")]
)
def test_silence_means_lost_only_while_running(state, age, expected):
    assert job.process_state({"state": state, "heartbeat": 1000.0}, 1000.0 + age, 60) == expected


def process(rank, state, finished=None, **more):
    return {
        "rank": rank,
        "host": f"w{rank + 1}",
        "state": state,
        "finished": finished,
        "started": 0.0,
        "heartbeat": finished or 5.0,
        **more,
    }


def test_the_earliest_failure_is_the_first_whatever_its_rank():
    found = job.first_failure([process(0, "failed", 12.0), process(1, "stopped", 3.0), process(2, "failed", 11.5)])
    assert found["rank"] == 2


def test_a_lost_process_comes_before_those_that_were_stopped():
    assert job.first_failure([process(0, "stopped", 1.0), process(1, "lost")])["rank"] == 1


def test_success_has_no_failure():
    assert job.first_failure([process(0, "succeeded", 1.0), process(1, "running")]) is None


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"state": "failed", "exit_code": 3}, "ended with exit status 3"),
        ({"state": "failed", "signal": "SIGKILL"}, "was killed by signal SIGKILL"),
        ({"state": "failed", "reason": "reached its time limit of 5 s", "signal": "SIGTERM"}, "reached its time limit of 5 s"),
        ({"state": "lost", "heard": "2026-01-01 00:00:00 UTC"}, "has not been heard of since 2026-01-01 00:00:00 UTC"),
    ],
)
def test_how_a_process_ended(record, words):
    assert job.describe_end(record) == words


def test_progress_is_read_on_from_where_it_was_left(tmp_path):
    path = tmp_path / "progress.jsonl"
    assert job.read_progress(str(path), 0) == ([], 0)
    path.write_bytes(b'{"step": 1}\nnot json\n[1]\n{"step": 2, "no')
    entries, offset = job.read_progress(str(path), 0)
    assert entries == [{"step": 1}]
    with path.open("ab") as file:
        file.write('te": "ü"}\n'.encode())
    entries, offset = job.read_progress(str(path), offset)
    assert entries == [{"step": 2, "note": "ü"}]
    assert job.read_progress(str(path), offset) == ([], offset)


def test_records_are_sorted_by_number_and_broken_ones_left_out(tmp_path):
    paths = job.Paths(str(tmp_path))
    assert job.read_records(paths) == []
    (tmp_path / "status").mkdir()
    for rank in (10, 2):
        (tmp_path / f"status/rank{rank}.json").write_text(json.dumps({"rank": rank}))
    (tmp_path / "status/rank3.json").write_text("{")
    (tmp_path / "status/rank4.json.host.17").write_text("{}")
    assert [record["rank"] for record in job.read_records(paths)] == [2, 10]


def test_tail_is_the_end_of_a_log_whatever_is_in_it(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d \xff\n" % number for number in range(10000)))
    assert [line.split()[1] for line in job.tail(str(path), 2)] == ["9998", "9999"]
    assert job.tail(str(tmp_path / "none"), 2) == []


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"step": 20, "steps": 100, "loss": 0.312345}, "step 20/100, loss 0.3123"),
        ({"loss": 1.0, "step": 7}, "step 7, loss 1"),
        ({"phase": "warm up", "weights": [1]}, "phase warm up"),
        ({}, ""),
    ],
)
def test_progress_line(entry, line):
    assert job.progress_line(entry) == line


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (59.7, "1 min 0 s"), (185, "3 min 5 s"), (7460, "2 h 4 min")])
def test_duration(seconds, words):
    assert job.duration(seconds) == words


def test_summary_names_hosts_time_values_and_places():
    found = {
        "name": "digits",
        "state": "succeeded",
        "directory": "/efs/jobs/digits",
        "processes": [process(0, "succeeded", 65.0), process(1, "succeeded", 60.0)],
    }
    text = "\n".join(job.summary(found, {"step": 10, "steps": 10, "accuracy": 0.97}))
    for part in ("job digits succeeded after 1 min 5 s", "2 (w1, w2)", "step 10/10, accuracy 0.97", "/efs/jobs/digits/checkpoints"):
        assert part in text


def test_failure_message_names_rank_host_end_and_last_lines():
    failure = {
        "rank": 1,
        "host": "w2",
        "how": "ended with exit status 3",
        "log": "/efs/jobs/digits/logs/rank1.log",
        "lines": ["Traceback", "boom"],
    }
    text = job.failure_message({"name": "digits", "state": "failed", "failure": failure})
    assert text == "job digits failed: rank 1 on w2 ended with exit status 3. The end of /efs/jobs/digits/logs/rank1.log:\nTraceback\nboom"
