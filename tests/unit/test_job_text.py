"""What people see of a job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import text


def test_progress_is_read_on_from_where_it_was_left(tmp_path):
    path = tmp_path / "progress.jsonl"
    assert text.read_progress(str(path), 0) == ([], 0)
    path.write_bytes(b'{"step": 1}\nnot json\n[1]\n{"step": 2, "no')
    entries, offset = text.read_progress(str(path), 0)
    assert entries == [{"step": 1}]
    with path.open("ab") as file:
        file.write('te": "ü"}\n'.encode())
    entries, offset = text.read_progress(str(path), offset)
    assert entries == [{"step": 2, "note": "ü"}]
    assert text.read_progress(str(path), offset) == ([], offset)


def test_tail_is_the_end_of_a_log_whatever_is_in_it(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d \xff\n" % number for number in range(10000)))
    assert [line.split()[1] for line in text.tail(str(path), 2)] == ["9998", "9999"]
    assert text.tail(str(tmp_path / "none"), 2) == []


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
    assert text.progress_line(entry) == line


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (59.7, "1 min 0 s"), (185, "3 min 5 s"), (7460, "2 h 4 min")])
def test_duration(seconds, words):
    assert text.duration(seconds) == words


def test_summary_names_hosts_time_values_and_places():
    found = {
        "name": "digits",
        "state": "succeeded",
        "directory": "/efs/jobs/digits",
        "processes": [
            {"host": "w1", "started": 0.0, "finished": 65.0, "heartbeat": 65.0},
            {"host": "w2", "started": 0.0, "heartbeat": 60.0},
        ],
    }
    lines = "\n".join(text.summary(found, {"step": 10, "steps": 10, "accuracy": 0.97}))
    for part in ("job digits succeeded after 1 min 5 s", "2 (w1, w2)", "step 10/10, accuracy 0.97", "/efs/jobs/digits/checkpoints"):
        assert part in lines


def test_failure_message_names_rank_host_end_and_last_lines():
    failure = {
        "name": "rank1",
        "host": "w2",
        "how": "ended with exit status 3",
        "log": "/efs/jobs/digits/logs/rank1.log",
        "lines": ["Traceback", "boom"],
    }
    message = text.failure_message({"name": "digits", "state": "failed", "failure": failure})
    assert (
        message == "job digits failed: rank 1 on w2 ended with exit status 3. The end of /efs/jobs/digits/logs/rank1.log:\nTraceback\nboom"
    )
