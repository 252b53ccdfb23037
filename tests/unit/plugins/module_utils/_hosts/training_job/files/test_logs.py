"""Tests that read log lines."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import logs


def test_a_rank_has_its_lines_also_where_those_of_others_follow_in_the_same_one():
    log = ["[1,1]<stdout>:sum 6[1,2]<stdout>:sum 7", "[1,12]<stdout>:sum 8", "mpirun says", "[1,2]<stderr>:bad [1]"]
    assert logs.lines_of("1", "[1,{}]<", log) == ["[1,1]<stdout>:sum 6"]
    assert logs.lines_of("2", "[1,{}]<", log) == ["[1,2]<stdout>:sum 7", "[1,2]<stderr>:bad [1]"]
    assert logs.lines_of("12", "[1,{}]<", log) == ["[1,12]<stdout>:sum 8"]
    assert logs.lines_of("3", "[rank {}] ", ["[rank 3] a", "[rank 33] b", "[rank 3] c"]) == ["[rank 3] a", "[rank 3] c"]


def test_tail_is_the_end_of_a_log_whatever_is_in_it(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d \xff\n" % number for number in range(10000)))
    assert [line.split()[1] for line in logs.tail(str(path), 24)] == ["9998", "9999"]
    assert logs.tail(str(tmp_path / "none"), 20) == []


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
    assert logs.read_log(str(path), offset, 32, over) == ([], offset, 0)
    path.write_bytes(written)
    assert logs.read_log(str(path), offset, 32, over) == (lines, next_offset, left_out)


LOCK = "Still waiting to acquire lock on /x.lock (elapsed: 10.0 seconds)\n"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (LOCK, True),
        (LOCK * 3 + "\r\n", True),
        ("[rank1]: Waiting in store based barrier to initialize process group for rank: 1\n", True),
        (LOCK + "step 3\n", False),
        ("step 3\n", False),
        ("awaiting\n", False),
        ("\n", False),
        ("", False),
        (LOCK * 100, False),
    ],
)
def test_lines_that_say_that_the_program_waits_are_no_activity(tmp_path, new, expected):
    path = tmp_path / "rank0.log"
    path.write_text("step 2\n" + new)
    assert logs.only_waits(str(path), 7, path.stat().st_size) is expected
    assert not logs.only_waits(str(tmp_path / "none"), 7, 9)
