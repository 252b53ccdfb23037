"""Tests of the documents of jobs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, document_schemas, records, recovery
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.storage_problems import StorageProblem

from .conftest import CAUSE, DECISION, ENDED, ENTRY, record, write


def test_records_are_sorted_by_number_and_broken_ones_left_out(tmp_path):
    paths = directories.Paths(str(tmp_path))
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


PLACE = {"rank": 2, "where": "train.py, line 9", "waits": True, "suspended": False}


@pytest.mark.parametrize(
    ("stuck", "is_valid"),
    [
        ([PLACE], True),
        ([], True),
        ([{**PLACE, "where": "x" * 401}], False),
        ([{**PLACE, "rank": -1}], False),
        ([{"rank": 2}], False),
        ([PLACE] * (document_schemas.RANKS_PER_HOST_LIMIT + 1), False),
        ("train.py", False),
    ],
)
def test_where_ranks_hang_is_checked(stuck, is_valid):
    if is_valid:
        assert records.check_record({**record(2), "stuck": stuck})["stuck"] == stuck
    else:
        with pytest.raises(ValueError, match="stuck"):
            records.check_record({**record(2), "stuck": stuck})


def test_null_in_the_cause_of_a_record_counts_as_missing():
    hang = {"seconds": 1.0, "median": None, "stuck": {**PLACE, "error": None}}
    found = records.check_record({**record(2), "cause": {"kind": "hang", "hang": hang, "deadline": None}, "raised": {"kind": "hang"}})
    assert found["cause"] == {"kind": "hang", "hang": {"seconds": 1.0, "stuck": PLACE}}


def test_a_record_that_is_only_touched_is_a_heartbeat(tmp_path):
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(record(0)))
    os.utime(path, (5.0, 5.0))
    assert records.read_record(str(path))["heartbeat"] == 5.0


def test_a_file_that_a_link_names_is_no_record(tmp_path):
    (tmp_path / "secret.json").write_text(json.dumps(record(0)))
    (tmp_path / "rank0.json").symlink_to("secret.json")
    assert records.read_record(str(tmp_path / "rank0.json")) is None
    assert records.read_record(str(tmp_path / "rank1.json")) is None


@pytest.mark.parametrize("content", [None, "", "{", "[]", "\ud800"])
def test_what_is_not_there_or_not_complete_reads_as_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "file").write_bytes(content.encode("utf-8", "surrogatepass"))
    assert records.read_json(str(tmp_path / "file")) is None


DESCRIPTION = {"launcher": "torchrun", "created": 1.5, "arguments": ["--epochs"], "code": {"commit": "0" * 40, "changed": False}}


def test_the_description_of_a_job(job):
    with pytest.raises(FileNotFoundError):
        records.read_description(job)
    write(job.description, {**DESCRIPTION, "name": "other", "time_limit": None})
    assert records.read_description(job) == DESCRIPTION
    write(job.description, {**DESCRIPTION, "created": "now"})
    with pytest.raises(ValueError, match=r"^its 'created' is 'now', not a number of seconds$"):
        records.read_description(job)


def test_a_link_is_no_directory_of_a_job(job, tmp_path):
    write(job.description, DESCRIPTION)
    (tmp_path / "link").symlink_to("digits")
    (tmp_path / "digits/status/rank0.json").write_text(json.dumps(record(0)))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/status").symlink_to("../digits/status")
    (tmp_path / "digits/status/x.json").write_text("{")
    problems = []
    with pytest.raises(ValueError, match=r"^the job's directory is a symbolic link$"):
        records.read_description(directories.Paths(str(tmp_path / "link")))
    assert records.read_records(directories.Paths(str(tmp_path / "other")), problems) == problems == []
    (tmp_path / "file").mkdir()
    (tmp_path / "file/status").touch()
    assert records.read_records(directories.Paths(str(tmp_path / "file"))) == []


@pytest.mark.parametrize(("sizes", "expected"), [([10], [True]), ([11], [False]), ([4, 6, 1], [True, True, False]), ([4, 5], [True, True])])
def test_a_budget_counts_what_is_read(sizes, expected):
    budget = records.Budget(10)
    assert [budget.take(size) for size in sizes] == expected
    assert (budget.size, budget.left) == (10, 10 - sum(sizes))
    assert records.Budget().left == 1 << 23


def test_records_beyond_the_budget_are_left_out_and_named(job):
    for rank in range(4):
        write(job.record(f"rank{rank}"), record(rank))
    size, problems = os.stat(job.record("rank0")).st_size, []
    found = records.read_records(job, problems, records.Budget(2 * size + 1))
    assert [item["rank"] for item in found] == [0, 1]
    listed = f"the records of job 'digits' in '{job.status}' exceed {2 * size + 1} bytes"
    told = f"{listed}: 'rank2.json' and the records after it are skipped"
    assert problems == [told]
    assert len(records.read_records(job, None, records.Budget(2 * size + 1))) == 2
    assert len(records.read_records(job, None, records.Budget(4 * size))) == 4


@pytest.mark.parametrize(("count", "read"), [(3, 3), (4, 3)])
def test_no_more_records_are_read_than_a_job_has(job, monkeypatch, count, read):
    monkeypatch.setattr(records, "RECORDS_LIMIT", 3)
    for rank in range(count):
        write(job.record(f"rank{rank}"), record(rank))
    problems = []
    assert len(records.read_records(job, problems)) == len(records.read_records(job)) == read
    assert problems == [f"'{job.status}' has more than 3 records. The remaining records are skipped."] * (count > 3)


def test_a_record_that_has_just_been_replaced_is_no_problem(job, monkeypatch):
    write(job.record("rank1"), record(1))
    monkeypatch.setattr(records, "listing", lambda _directory: ["rank0.json", "rank1.json"])
    problems = []
    assert [item["rank"] for item in records.read_records(job, problems)] == [1]
    assert problems == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "rank1"}, "the process name 'rank1' does not match the name of the file"),
        ({"state": "failed"}, "the key 'finished' is missing"),
        ({"state": "stopped"}, "the key 'finished' is missing"),
        ({"state": "succeeded"}, "the key 'finished' is missing"),
        ({"host": ""}, "its 'host' is '', not the name of a host"),
    ],
)
def test_what_is_wrong_with_a_record_is_told(job, changes, message):
    write(job.record("rank0"), {**record(0), **changes})
    problems = []
    assert records.read_records(job, problems) == records.read_records(job) == []
    assert problems == [f"record '{job.record('rank0')}' is skipped: {message}"]
    assert records.read_record(job.record("rank0")) is None


def test_a_process_that_has_ended_tells_when():
    ended = {**record(0), "state": "failed", "finished": 4.0, "exit_code": 1, "colour": "red"}
    assert records.check_record(ended) == {key: value for key, value in ended.items() if key != "colour"}


def test_no_heartbeat_is_after_the_year_2106(tmp_path):
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(record(0)))
    os.utime(path, (1 << 33, 1 << 33))
    assert records.read_record(str(path))["heartbeat"] == 1 << 32
    path.write_text(json.dumps({**record(0), "heartbeat": 50.0}))
    os.utime(path, (5.0, 5.0))
    assert records.read_record(str(path))["heartbeat"] == 50.0


def test_how_a_job_ended(job):
    problems = []
    assert records.read_verdict(job, problems) is None
    write(job.verdict, {"state": "succeeded", "failure": {"anything": 1}})
    assert records.read_verdict(job, problems) == {"state": "succeeded", "failure": None}
    failure = {**record(0), "state": "failed", "finished": 4.0}
    write(job.verdict, {"state": "failed", "failure": {**failure, "colour": "red"}, "colour": "red"})
    assert records.read_verdict(job, problems) == {"state": "failed", "failure": failure}
    assert problems == []


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ({"state": "running"}, "its 'state' is 'running', not one of succeeded, failed, stopped, lost"),
        ({"state": "failed"}, "it has no 'name'"),
        ({"state": "failed", "failure": []}, "its 'failure' is a list, not an object"),
    ],
)
def test_a_verdict_that_is_not_valid_is_named(job, verdict, message):
    write(job.verdict, verdict)
    problems = []
    assert records.read_verdict(job, problems) is records.read_verdict(job) is None
    assert problems == [f"verdict '{job.verdict}' is skipped: {message}"]


def test_the_newest_attempt_is_that_with_the_highest_number(job):
    assert records.newest_attempt(job).attempt == 1
    for name in ("attempt2", "attempt9", "attempt10", "attempt99999", "attempt0", "attempt-3", "attemptx", "rank0.json"):
        os.makedirs(os.path.join(job.status, name))
    for number in (1, 2, 9):
        write(job.of_attempt(number).following, {**DECISION, "action": "restart"})
    assert records.newest_attempt(job.of_attempt(2)).attempt == 10


@pytest.mark.parametrize("forged", [None, {}, {"rule": "same_hosts", "decided": 1.0, "action": "stop"}])
def test_an_attempt_counts_only_if_the_one_before_it_was_restarted(job, forged):
    """If an empty directory counted as an attempt, it would hide the attempt that is running."""
    write(job.following, {**DECISION, "action": "restart"})
    for number in (2, 1023, 1024, 1025):
        os.makedirs(job.of_attempt(number).status)
    if forged is not None:
        write(job.of_attempt(1023).following, forged)
    write(job.of_attempt(1024).following, {**DECISION, "action": "restart"})
    assert records.newest_attempt(job).attempt == 2
    write(job.of_attempt(1023).following, {**DECISION, "action": "restart"})
    assert records.newest_attempt(job).attempt == recovery.ATTEMPTS_LIMIT == 1024


def test_decisions_are_read_within_a_limit(job):
    write(job.following, {**DECISION, "action": "restart", "more": "x" * records.FOLLOWING_LIMIT})
    os.makedirs(job.of_attempt(2).status)
    assert records.newest_attempt(job).attempt == 1
    write(job.following, {**DECISION, "action": "restart"})
    assert records.newest_attempt(job).attempt == 2
    assert records.newest_attempt(job, records.Budget(10)).attempt == 1
    assert records.read_following(job, records.Budget(10)) is None


@pytest.mark.parametrize("changes", [{"problem": "x"}, {"free": -1}, {"path": "x" * 5000}, {"size": None}])
def test_storage_problems_that_are_not_valid_are_left_out(job, changes):
    storage = [{**StorageProblem("/ckpt", "space")._asdict(), **changes}]
    write(job.record("rank0"), {**ENDED, "cause": {"kind": "disk_full", "what": "x", "storage": storage}})
    assert "cause" not in records.read_record(job.record("rank0"))


def test_a_cause_that_is_not_valid_leaves_the_rest_of_a_record(job):
    write(job.record("rank0"), {**ENDED, "cause": {"kind": "no such kind"}})
    assert "cause" not in records.read_record(job.record("rank0"))
    write(job.following, {**DECISION, "action": "stop", "cause": {**CAUSE, "what": "x" * 2000}})
    assert "cause" not in records.read_following(job)


@pytest.mark.parametrize("name", ["7.pt", "\udcff.pt", "a b", "lightning_logs/version_0/checkpoints/last.ckpt"])
def test_names_of_checkpoints(job, name):
    write(job.following, {**DECISION, "action": "restart", "set_aside": {"name": name, "changed": 1.0}})
    assert records.read_following(job)["set_aside"]["name"] == name


@pytest.mark.parametrize("name", ["..", ".hidden", "a/.b", "a/../b", "/a", "a/", "a//b", "a\0", "\ud800", ""])
def test_names_that_no_checkpoint_has(job, name):
    write(job.following, {**DECISION, "action": "restart", "set_aside": {"name": name, "changed": 1.0}})
    assert records.read_following(job) is None


def test_the_last_change_of_any_record(job):
    assert records.last_change(directories.Paths("/nowhere")) == 0
    for number, moment in ((1, 50.0), (3, 70.0), (9999, 60.0)):
        os.makedirs(job.of_attempt(number).status, exist_ok=True)
        write(job.of_attempt(number).record("rank0"), ENDED)
        os.utime(job.of_attempt(number).record("rank0"), (moment, moment))
    assert records.last_change(job) == 70.0
    os.makedirs(job.logs)
    write(job.log("rank0"), "")
    os.symlink(job.log("rank0"), job.record("rank1"))
    os.utime(job.record("rank1"), (55.0, 55.0), follow_symlinks=False)
    assert records.last_change(job) == 70.0, "a link does not have the time of the file that it names"


@pytest.mark.parametrize("name", ["status", "logs"])
def test_attempts_behind_a_link_do_not_count(job, tmp_path, name):
    (tmp_path / "elsewhere/attempt2").mkdir(parents=True)
    os.makedirs(os.path.join(job.status, "attempt2"))
    place = os.path.join(job.directory, name)
    if os.path.isdir(place):
        os.rename(place, tmp_path / "moved")
    os.symlink(tmp_path / "elsewhere", place)
    assert records.newest_attempt(job).attempt == 1


def test_of_several_writers_of_a_new_file_one_succeeds(tmp_path):
    path = str(tmp_path / "next")
    assert records.write_new_json(path, {"action": "stop"})
    assert not records.write_new_json(path, {"action": "restart"})
    assert json.loads(Path(path).read_text()) == {"action": "stop"}
    assert os.listdir(tmp_path) == ["next"]


@pytest.mark.parametrize(
    "change", [{"action": "run"}, {"rule": None}, {"failure": {}}, {"hosts": ["a b"]}, {"set_aside": {"name": "../x"}}]
)
def test_a_decision_that_is_not_valid_is_none(job, change):
    write(job.following, {**DECISION, "action": "stop", **change})
    assert records.read_following(job) is None


def test_a_decision_is_read_without_unknown_keys(job):
    write(job.following, {**DECISION, "action": "stop", "failure": {**ENDED, "colour": "red"}, "colour": "red"})
    assert records.read_following(job) == {**DECISION, "action": "stop", "failure": ENDED}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ENTRY),
        ({"failure": "w1: no space", "other": 1}, {**ENTRY, "failure": "w1: no space"}),
        ({"failure": "x" * 1001}, None),
        ({"failure": None}, ENTRY),
        ({"queue": "Slurm"}, None),
        ({"queue": "x" * 41}, None),
        ({"id": "7; true"}, None),
        ({"id": ""}, None),
        ({"id": "application_1404198295326_0001"}, {**ENTRY, "id": "application_1404198295326_0001"}),
        ({"id": "application_1"}, None),
        ({"id": "1" * 61}, None),
        ({"id": 7}, None),
        ({"submitted": "now"}, None),
        ({"submitted": -1}, None),
    ],
)
def test_the_entry_in_a_queue_is_read_if_it_is_valid(tmp_path, changes, expected):
    paths = directories.Paths(str(tmp_path), attempt=3)
    assert paths.queue == str(tmp_path / "status/queue")
    (tmp_path / "status").mkdir()
    assert records.read_queued(paths) is None
    (tmp_path / "status/queue").write_text(json.dumps({**ENTRY, **changes}))
    assert records.read_queued(paths) == expected


@pytest.mark.parametrize("key", sorted(ENTRY))
def test_an_incomplete_entry_is_not_read(tmp_path, key):
    (tmp_path / "status").mkdir()
    (tmp_path / "status/queue").write_text(json.dumps({name: value for name, value in ENTRY.items() if name != key}))
    assert records.read_queued(directories.Paths(str(tmp_path))) is None
