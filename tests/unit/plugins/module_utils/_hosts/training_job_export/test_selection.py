"""Tests that check which files of a job are exported."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_export import module_run, selection
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_export.selection import Root, select


@pytest.fixture
def job(tmp_path):
    """A job's directory, and a secret outside it."""
    (tmp_path / "secret").write_text("key")
    top = tmp_path / "digits"
    for path in (
        "job.json",
        "logs/rank0.log",
        "checkpoints/step-10.pt",
        "checkpoints/step-20.pt.tmp",
        "checkpoints/.step-30",
        "checkpoints/step-10/.metadata",
        "checkpoints/step-10/weights/.zarray",
        "checkpoints/step-10/part.tmp",
        ".report.html",
    ):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(path)
    return top


DEFAULT = tuple(module_run.ARGUMENTS["exclude"]["default"])
SHARDED = ["checkpoints/step-10/.metadata", "checkpoints/step-10/part.tmp", "checkpoints/step-10/weights/.zarray"]


def keys(*roots, include=(), exclude=DEFAULT):
    return sorted(select([Root(str(root), "") for root in roots], include, exclude).files)


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ({}, ["checkpoints/step-10.pt", *SHARDED, "job.json", "logs/rank0.log"]),
        ({"include": ["logs"]}, ["logs/rank0.log"]),
        ({"include": ["*.pt", "job.json"]}, ["checkpoints/step-10.pt", "job.json"]),
        ({"include": ["checkpoints/step-*"]}, ["checkpoints/step-10.pt", *SHARDED]),
        ({"exclude": ["*.tmp", ".*"]}, ["checkpoints/step-10.pt", "job.json", "logs/rank0.log"]),
        ({"include": ["rank*"], "exclude": ["logs"]}, []),
        ({"exclude": ["checkpoints/*", ".*"]}, ["job.json", "logs/rank0.log"]),
    ],
)
def test_patterns(job, patterns, found):
    assert keys(job, **patterns) == found


def test_what_is_left_out_is_named(job):
    (job / "checkpoints/last.pt").symlink_to("step-10.pt")
    (job / ".cache").mkdir()
    (job / ".cache/x").write_text("")
    (job / "status").mkdir()
    (job / "status/export").write_text("")
    omitted = [".cache/", ".report.html", "checkpoints/.step-30", "checkpoints/last.pt", "checkpoints/step-20.pt.tmp"]
    assert sorted(select([Root(str(job), "")], [], DEFAULT).omitted) == omitted
    assert sorted(select([Root(str(job), "")], ["logs", "*.pt"], DEFAULT).omitted) == [".cache/", "checkpoints/last.pt"]


def test_links_and_special_files_are_not_exported(job, tmp_path):
    (job / "logs/passwords").symlink_to("/etc/passwd")
    (job / "logs/secret").symlink_to(tmp_path / "secret")
    (job / "logs/everything").symlink_to("/")
    os.mkfifo(job / "logs/fifo")
    assert keys(job, include=["logs"]) == ["logs/rank0.log"]
    (tmp_path / "link").symlink_to(job)
    found = select([Root(str(tmp_path / "link"), "")], [], [])
    assert (found.files, len(found.problems)) == ({}, 1), "a link instead of a job directory is an error"


def test_what_is_being_written_is_not_exported(job):
    (job / "status").mkdir()
    for name in ("export", "export.files", "export.request", "rank0.json", ".rank0.json.77", "over", ".over.77", ".next.77"):
        (job / "status" / name).write_text("")
    (job / "status/attempt2").mkdir()
    for name in ("rank0.json", ".rank0.json.77", "over", ".over.77", ".next.77"):
        (job / "status/attempt2" / name).write_text("")
    finished = ["status/attempt2/over", "status/attempt2/rank0.json", "status/over", "status/rank0.json"]
    assert keys(job, include=["status"]) == finished


def test_checkpoints_elsewhere_are_exported_as_if_they_were_here(job, tmp_path):
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier/step-10.pt").write_text("the later one")
    (tmp_path / "earlier/step-20.pt").write_text("")
    found = select([Root(str(job), ""), Root(str(tmp_path / "earlier"), "checkpoints/")], ["checkpoints"], DEFAULT).files
    assert {key: file.size for key, file in found.items() if key not in SHARDED} == {
        "checkpoints/step-10.pt": 13,
        "checkpoints/step-20.pt": 0,
    }
    assert not select([Root(str(tmp_path / "earlier"), "checkpoints/")], [], ["checkpoints"]).files


def test_names_that_s3_cannot_have_are_problems(job):
    for name in (b"\xff", b"line\nbreak", b"x" * 200):
        with open(os.path.join(os.fsencode(job), b"logs", name), "wb"):
            pass
    found = select([Root(str(job), "")], ["logs"], [], key_limit=100)
    assert sorted(found.files) == ["logs/rank0.log"]
    problems = {problem.partition("logs/")[2] for problem in found.problems}
    assert problems == {
        "line\\nbreak' has a name with control characters",
        "x" * 200 + "' has a name with more than 100 bytes",
        "\\udcff' has a name that is not UTF-8",
    }


def test_what_cannot_be_read_is_a_problem(job, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(selection, "_entries", refuse)
    assert select([Root("/efs/jobs/digits", "")], [], []).problems == ["'/efs/jobs/digits/' cannot be read: Permission denied"]


def test_a_deep_tree_is_a_problem_and_no_endless_work(job):
    folder = str(job / "logs")
    for _level in range(selection.DEPTH_LIMIT + 10):
        folder += "/d"
        os.mkdir(folder)
    found = select([Root(str(job), "")], ["logs"], [])
    assert len(found.problems) == 1
    assert f"is nested more than {selection.DEPTH_LIMIT} levels deep" in found.problems[0]


def test_too_many_files_are_refused(job, monkeypatch):
    monkeypatch.setattr(selection, "FILES_LIMIT", 2)
    with pytest.raises(selection.SelectionError, match=r"digits: has more than 2 files to export\. Exclude some files with"):
        keys(job)


def test_a_selected_file_is_opened_only_if_it_is_still_one(job, tmp_path):
    file = select([Root(str(job), "")], ["logs"], []).files["logs/rank0.log"]
    with open(selection.open_file(file), encoding="utf-8") as content:
        assert content.read() == "logs/rank0.log"
    (job / "logs/rank0.log").unlink()
    with pytest.raises(FileNotFoundError):
        selection.open_file(file)
    (job / "logs/rank0.log").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links") as refused:
        selection.open_file(file)
    assert refused.value.errno in selection.GONE
    (job / "logs/rank0.log").unlink()
    os.mkfifo(job / "logs/rank0.log")
    with pytest.raises(FileNotFoundError, match="no longer a regular file"):
        selection.open_file(file)
    (job / "logs").rename(tmp_path / "logs")
    (tmp_path / "rank0.log").write_text("secret")
    (job / "logs").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        selection.open_file(file)
