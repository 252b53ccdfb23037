"""What people see of a job."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import formatting


def test_progress_is_read_on_from_where_it_was_left(tmp_path):
    path = tmp_path / "progress.jsonl"
    assert formatting.read_progress(str(path), 0) == ([], 0)
    path.write_bytes(b'{"step": 1}\nnot json\n[1]\n{"step": 2, "no')
    entries, offset = formatting.read_progress(str(path), 0)
    assert entries == [{"step": 1}]
    with path.open("ab") as file:
        file.write('te": "ü"}\n'.encode())
    entries, offset = formatting.read_progress(str(path), offset)
    assert entries == [{"step": 2, "note": "ü"}]
    assert formatting.read_progress(str(path), offset) == ([], offset)


def test_a_rank_has_its_lines_also_where_those_of_others_follow_in_the_same_one():
    log = ["[1,1]<stdout>:sum 6[1,2]<stdout>:sum 7", "[1,12]<stdout>:sum 8", "mpirun says", "[1,2]<stderr>:bad [1]"]
    assert formatting.lines_of("1", "[1,{}]<", log) == ["[1,1]<stdout>:sum 6"]
    assert formatting.lines_of("2", "[1,{}]<", log) == ["[1,2]<stdout>:sum 7", "[1,2]<stderr>:bad [1]"]
    assert formatting.lines_of("12", "[1,{}]<", log) == ["[1,12]<stdout>:sum 8"]
    assert formatting.lines_of("3", "[rank {}] ", ["[rank 3] a", "[rank 33] b", "[rank 3] c"]) == ["[rank 3] a", "[rank 3] c"]


def test_tail_is_the_end_of_a_log_whatever_is_in_it(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d \xff\n" % number for number in range(10000)))
    assert [line.split()[1] for line in formatting.tail(str(path), 24)] == ["9998", "9999"]
    assert formatting.tail(str(tmp_path / "none"), 20) == []


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"step": 20, "steps": 100, "loss": 0.312345}, "step 20/100, loss 0.3123"),
        ({"loss": 1.0, "step": 7}, "step 7, loss 1"),
        ({"step": 7, "time": 1790000000.5}, "step 7"),
        ({"phase": "warm up", "weights": [1]}, "phase warm up"),
        ({}, ""),
    ],
)
def test_progress_line(entry, line):
    assert formatting.progress_line(entry) == line


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (59.7, "1 min 0 s"), (185, "3 min 5 s"), (7460, "2 h 4 min")])
def test_duration(seconds, words):
    assert formatting.duration(seconds) == words


def test_the_last_progress_is_at_the_end_of_a_long_file(tmp_path):
    path = tmp_path / "progress.jsonl"
    assert formatting.last_progress(str(path)) == {}
    path.write_text("".join(json.dumps({"step": step, "note": "x" * 100}) + "\n" for step in range(100)) + '{"step": 100')
    assert formatting.last_progress(str(path))["step"] == 99


@pytest.mark.parametrize(
    ("written", "offset", "over", "lines", "next_offset", "left_out"),
    [
        (b"one\ntwo\nthr", 0, False, ["one", "two"], 8, 0),
        (b"one\ntwo\nthr", 4, True, ["two", "thr"], 11, 0),
        (b"one\n", 4, False, [], 4, 0),
        (b"0%\r50%\r100%\r\nnext 0%\r", 0, False, ["100%", "next 0%"], 21, 0),
        (b"\x1b[31mred\x1b[0m\x07\x1b]0;title\x07 \xff\n", 0, False, ["red \N{REPLACEMENT CHARACTER}"], 26, 0),
        (b"long line\n" * 10, 0, False, ["long line"] * 3, 100, 70),
        (b"x" * 50, 0, False, ["x" * 32], 50, 18),
        (b"\n\na\n", 0, False, ["", "", "a"], 4, 0),
    ],
    ids=["partial", "over", "nothing", "progress bar", "control", "too much", "endless line", "empty lines"],
)
def test_a_log_is_read_on_in_whole_lines(tmp_path, written, offset, over, lines, next_offset, left_out):
    path = tmp_path / "rank0.log"
    assert formatting.read_log(str(path), offset, 32, over) == ([], offset, 0)
    path.write_bytes(written)
    assert formatting.read_log(str(path), offset, 32, over) == (lines, next_offset, left_out)


def test_each_line_of_a_log_tells_its_process():
    logs = [
        {"name": "rank0", "path": "/l/rank0.log", "lines": ["a", ""], "left_out": 0},
        {"name": "rank10", "path": "/l/rank10.log", "lines": ["b"], "left_out": 9},
    ]
    assert formatting.log_lines(logs, [{"name": "rank0"}, {"name": "rank10"}]) == [
        "rank 0  | a",
        "rank 0  | ",
        "rank 10 | ... 9 bytes left out, all is in /l/rank10.log",
        "rank 10 | b",
    ]


def job(**changes):
    processes = [
        {"name": "rank0", "host": "w1", "state": "stopped", "started": 0.0, "finished": 60.0, "heartbeat": 60.0, "signal": "SIGTERM"},
        {"name": "rank1", "host": "w10", "state": "failed", "started": 1.0, "finished": 65.0, "heartbeat": 65.0, "exit_code": 3},
    ]
    processes[0]["reason"] = "was ended because rank 1 failed"
    found = {"name": "digits", "state": "failed", "directory": "/efs/jobs/digits", "processes": processes, "process_count": 2}
    return {**found, "script": "src/train.py", "command": [], "launcher": "torchrun", "created": 0.0, "code": {}, "metrics": {}, **changes}


def running(**changes):
    return job(state="running", **changes)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (job(), "digits failed after 1 min 5 s, 2 processes on 2 hosts, torchrun train.py"),
        (running(metrics={"step": 2, "steps": 9}), "digits running for 2 min 0 s, 2 processes on 2 hosts, torchrun train.py, step 2/9"),
        (job(state="pending", processes=[]), "digits pending since 1970-01-01 00:00:00 UTC, torchrun train.py"),
        (
            running(script=None, command=["bash", "x"], launcher="command"),
            "digits running for 2 min 0 s, 2 processes on 2 hosts, command bash",
        ),
        (running(code={"commit": "0123456789abcdef", "changed": True}), ", commit 0123456789ab with changes"),
        (running(code={"commit": "0123456789abcdef", "changed": False, "repository": "git@x:y"}), ", commit 0123456789ab of git@x:y"),
    ],
)
def test_a_job_in_one_line(found, line):
    told = formatting.job_line(found, 120.0)
    assert told == line or (line.startswith(", ") and told.endswith(line))


def test_the_table_of_processes_tells_where_they_run_and_how_they_ended():
    assert formatting.process_table(job()["processes"]) == [
        "process  host  state    exit     started              ended",
        "rank 0   w1    stopped  SIGTERM  1970-01-01 00:00:00  1970-01-01 00:01:00  was ended because rank 1 failed",
        "rank 1   w10   failed   3        1970-01-01 00:00:01  1970-01-01 00:01:05",
    ]


def test_summary_names_hosts_time_values_and_places():
    lines = "\n".join(formatting.summary(job(state="succeeded"), {"step": 10, "steps": 10, "accuracy": 0.97}))
    for part in ("job digits succeeded after 1 min 5 s", "2 (w1, w10)", "step 10/10, accuracy 0.97", "/efs/jobs/digits/checkpoints"):
        assert part in lines


def test_failure_message_names_rank_host_end_and_last_lines():
    failure = {
        "name": "rank1",
        "host": "w2",
        "how": "ended with exit status 3",
        "log": "/efs/jobs/digits/logs/rank1.log",
        "lines": ["Traceback", "boom"],
    }
    message = formatting.failure_message({"name": "digits", "state": "failed", "failure": failure})
    assert (
        message == "job digits failed: rank 1 on w2 ended with exit status 3. The end of /efs/jobs/digits/logs/rank1.log:\nTraceback\nboom"
    )


def test_failure_message_without_last_words_is_a_sentence():
    failure = {"name": "rank1", "host": "w2", "how": "was stopped", "log": "/efs/jobs/digits/logs/rank1.log", "lines": []}
    message = formatting.failure_message({"name": "digits", "state": "stopped", "directory": "/efs/jobs/digits", "failure": failure})
    assert message == "job digits stopped: rank 1 on w2 was stopped. The logs are in /efs/jobs/digits/logs"
