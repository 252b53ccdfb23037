"""The files of jobs are untrusted data: invalid files are skipped and reported, and valid files are shown (M4 of the security review)."""

from __future__ import annotations

import json
import os
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import progress_times, status
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs import listing
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report import curves, file_listing
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, records
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers import torchrun
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import describe_failure

from .jobs import DESCRIPTION, RECORD


@pytest.fixture(autouse=True)
def in_time():
    """Verify that each test takes less than 5 s of CPU time, regardless of the contents of files."""
    start = time.process_time()
    yield
    assert time.process_time() - start < 5


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        ("{}", "it has no 'launcher'"),
        ("[]", "the JSON text is not an object"),
        ("{", "Expecting property name"),
        ('{"code": ' + DEEP, "nested too deeply"),
        ({**DESCRIPTION, "created": "now"}, "its 'created' is 'now', not a number of seconds"),
        ('{"launcher": "mpi", "created": 1e999}', "its 'created' is inf, not a number of seconds"),
        ('{"launcher": "mpi", "created": ' + "9" * 900_000 + "}", "its 'created' is inf"),
        ({**DESCRIPTION, "created": 1e300}, "not a number of seconds"),
        ({**DESCRIPTION, "launcher": ["mpi"]}, "its 'launcher' is a list, not the name of a launcher"),
        ({**DESCRIPTION, "script": 7}, "its 'script' is 7"),
        ({**DESCRIPTION, "command": "rm -rf"}, "its 'command' is 'rm -rf', not a list"),
        ({**DESCRIPTION, "code": {"commit": "\x1b[2J"}}, "its 'code' is an object, not an object with valid values"),
        ('{"launcher": "' + "x" * (2 << 20) + '"}', "the JSON text has more than 1048576 bytes"),
    ],
)
def test_a_bad_description_is_skipped_and_named(jobs, description, reason):
    jobs.add("bad", description)
    found, problems = jobs.list()
    assert list(found) == ["honest"]
    assert len(problems) == 1
    assert problems[0].startswith(f"job 'bad' in {jobs.directory} is skipped: ")
    assert reason in problems[0]


@pytest.mark.parametrize(
    "change",
    [
        {"rank": "1"},
        {"rank": True},
        {"rank": 1e300},
        {"ranks": None},
        {"part": None},
        {"heartbeat": None},
        {"started": float("nan")},
        {"state": "fine"},
        {"host": "w1\nfatal: [master]"},
        {"name": "../../../other/logs/rank0"},
        {"name": "rank7"},
        {"processes": 0},
        {"finished": None},
        {"signal": "\x1b]0;x\x07"},
        {"stopped_for": ["x"]},
        {"exit_code": -1 << 70},
    ],
    ids=str,
)
def test_a_bad_record_is_skipped_and_named(jobs, change):
    folder = jobs.add("bad", rank0={**RECORD, **change}, rank1={**RECORD, "name": "rank1", "rank": 1})
    found, problems = jobs.list()
    assert set(found) == {"honest", "bad"}
    assert [process["name"] for process in found["bad"]["processes"]] == ["rank1"]
    assert [problem.split(": ")[0] for problem in problems] == [f"record '{folder}/status/rank0.json' is skipped"]


@pytest.mark.parametrize(
    "verdict",
    ['{"state": "failed"}', '{"state": "failed", "failure": {}}', '{"state": "?"}', "[]", "{", '{"state": "failed", "failure": 7}'],
)
def test_a_bad_verdict_is_skipped_and_named(jobs, verdict):
    folder = jobs.add("bad", rank0=RECORD)
    (folder / "status/over").write_text(verdict)
    found, problems = jobs.list()
    assert describe_failure(found["bad"]["failure"]) == "ended with exit status 1"
    assert [problem.split(": ")[0] for problem in problems] == [f"verdict '{folder}/status/over' is skipped"]


def test_a_job_is_called_what_its_directory_is_called(jobs):
    jobs.add("mine", {**DESCRIPTION, "name": "another"})
    assert set(jobs.list()[0]) == {"honest", "mine"}


def test_what_is_no_file_hangs_nobody(jobs):
    for name in ("job.json", "status/rank1.json", "status/over", "progress.jsonl", "logs/rank0.log", "status/progress"):
        folder = jobs.add(name.translate(str.maketrans("/.", "--")), rank0=RECORD)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
        curves.read(str(folder / "progress.jsonl"), progress_times.read_notes(str(folder / "status/progress")), 0.0, 1.0)
    found, problems = jobs.list()
    assert len(found) == 6
    assert sum("is not a regular file" in problem for problem in problems) == 3


def test_no_link_leads_a_reader_to_files_that_are_not_the_jobs(jobs, tmp_path):
    (tmp_path / "secrets").mkdir()
    for name in ("rank0.log", "progress.jsonl", "over"):
        (tmp_path / "secrets" / name).write_text('{"secret": "key"}\n')
    folder = jobs.add("links", rank0=RECORD)
    (folder / "progress.jsonl").symlink_to(tmp_path / "secrets/progress.jsonl")
    (folder / "logs/rank0.log").symlink_to(tmp_path / "secrets/rank0.log")
    (folder / "code").symlink_to(tmp_path / "secrets")
    other = jobs.add("folder", rank0=RECORD)
    (other / "logs").rmdir()
    (other / "logs").symlink_to(tmp_path / "secrets")
    (jobs.directory / "whole").symlink_to(folder)
    found, problems = jobs.list()
    assert set(found) == {"honest", "links", "folder"}
    assert "key" not in json.dumps(found)
    assert problems == [f"job 'whole' in {jobs.directory} is skipped: the job's directory is a symbolic link"]
    assert file_listing.code(str(folder / "code"))["count"] == 0


def test_no_pattern_comes_out_of_a_record(jobs):
    folder = jobs.add("slow", rank0={**RECORD, "culprit": "(a+)+$", "tag": "{0.__class__}{:>999999999}", "tagged": True})
    (folder / "logs/rank0.log").write_text("a" * 40 + "!\n")
    assert jobs.list()[0]["slow"]["failure"]["lines"] == ["a" * 40 + "!"]


def test_a_log_that_is_made_to_be_searched_for_ever_is_not():
    begin = "E1 torch/distributed/elastic/multiprocessing/api.py:1] failed (exitcode: 1)\n"
    log = begin * 800 + "Root Cause\n" * 8000 + "  rank      : 1\n" * 6000
    assert torchrun.culprit(log.splitlines()) is None
    assert torchrun.culprit([*log.splitlines(), "  rank : 1", "  exitcode : -9 (pid: 3)"]).rank == "1"


def test_the_supervisor_goes_on_beside_bad_records(tmp_path):
    (tmp_path / "status").mkdir()
    paths = directories.Paths(str(tmp_path))
    for name, content in {"rank0.json": json.dumps(RECORD), "rank1.json": "[]", "rank2.json": '{"name": "rank2"}', "over": "{}"}.items():
        (tmp_path / "status" / name).write_text(content)
    assert [record["name"] for record in records.read_records(paths)] == ["rank0"]
    assert records.read_record(paths.record("rank2")) is None
    assert records.read_verdict(paths) is None


def test_one_job_tells_of_its_bad_files_too(jobs):
    jobs.add("bad", rank0="{")
    found = status.read_status(directories.Paths(str(jobs.directory / "bad")), 60)
    assert (found["state"], len(found["problems"])) == ("pending", 1)


def test_no_number_of_forged_attempts_hides_other_jobs(jobs):
    folder = jobs.add("forged", rank0=RECORD)
    decision = {"action": "restart", "rule": "fewer_hosts", "decided": 1.0, "why": "Run rm -rf /.", "missing": ["w" * 253] * 240}
    (folder / "status/next").write_text(json.dumps(decision))
    for number in range(2, 1500):
        (folder / f"status/attempt{number}").mkdir()
        os.link(folder / "status/next", folder / f"status/attempt{number}/next")
    found, problems = jobs.list()
    assert (set(found), problems) == ({"honest", "forged"}, [])
    assert found["forged"]["attempt"] == 1024
    assert [one["attempt"] for one in found["forged"]["attempts"]] == [*range(1, 51), *range(975, 1025)]
    assert "rm -rf" not in json.dumps(found)


def test_a_job_that_is_too_large_leaves_room_for_older_ones(jobs, monkeypatch):
    jobs.add("large", {**DESCRIPTION, "arguments": ["x" * 20_000]}, **{f"rank{rank}": "x" * 10_000 for rank in range(9)})
    jobs.add("huge", rank0={**RECORD, "ranks": [*range(4_000)]})
    monkeypatch.setattr(listing, "LISTING_LIMIT", 10_000)
    found, problems = jobs.list()
    assert set(found) == {"honest"}
    assert sum("is skipped: its records and those of newer jobs exceed 10000 bytes" in problem for problem in problems) == 2


def test_no_more_problems_are_told_than_people_read():
    assert listing.some([f"{number}\x1b[2J\n" for number in range(100)])[-2:] == ["19 ", "80 more job files are skipped"]
