"""Tests of the program that assigns GPUs to jobs of Grid Engine."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.sge import shepherd


@pytest.fixture
def spool(tmp_path, monkeypatch):
    """Return a function that creates the directory of a task and returns its path."""
    monkeypatch.setattr(shepherd, "ASSIGNED", str(tmp_path / "assigned"))

    def create(task, slots=1):
        place = tmp_path / "active_jobs" / task
        place.mkdir(parents=True)
        (place / "config").write_text(f"queue=trainers\njob_id={task.partition('.')[0]}\nhost_slots={slots}\n")
        (place / "environment").write_bytes(b"A=1\nQRSH_COMMAND=a\xffb\nCUDA_VISIBLE_DEVICES=7\n")
        return place

    return create


def gpus(place):
    lines = (place / "environment").read_bytes().decode("latin-1").splitlines()
    assert lines[:2] == ["A=1", "QRSH_COMMAND=a\xffb"]
    assert len(lines) == 3
    return lines[2].removeprefix("CUDA_VISIBLE_DEVICES=")


def test_two_jobs_never_have_the_same_gpu(spool, monkeypatch):
    monkeypatch.setattr(shepherd, "requested", lambda job, slots: {"1": 1, "2": 2, "3": 2, "4": 0}[job] * slots)
    first, second, third, none = (spool(task) for task in ("1.1", "2.1", "3.1", "4.1"))
    for place in (first, second, none):
        shepherd.prepare(str(place), 4)
    assert (gpus(first), gpus(second), gpus(none)) == ("0", "1,2", "")
    shepherd.prepare(str(third), 4)
    assert gpus(third) == "", "too few are free"
    for path in sorted(second.iterdir()):
        path.unlink()
    second.rmdir()
    (third / "environment").write_bytes(b"A=1\nQRSH_COMMAND=a\xffb\n")
    shepherd.prepare(str(third), 4)
    assert gpus(third) == "1,2"


def test_all_tasks_of_a_job_on_a_host_have_the_same_gpus(spool, monkeypatch):
    monkeypatch.setattr(shepherd, "requested", lambda _job, slots: slots)
    places = [spool("1.1", 2), spool("1.1/1.a", 2), spool("1.1/2.a", 2)]
    for place in places:
        shepherd.prepare(str(place), 4)
    assert [gpus(place) for place in places] == ["0,1"] * 3


def test_a_host_without_gpus_does_not_ask(spool, monkeypatch):
    monkeypatch.setattr(shepherd, "requested", None)
    place = spool("1.1")
    shepherd.prepare(str(place), 0)
    assert gpus(place) == ""


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("hard resource_list:         exclusive=true,gpu=2\n", 6),
        ("hard resource_list: gpu=1\n", 3),
        ("soft resource_list: gpu=1\n", 0),
        ("", 0),
    ],
)
def test_the_request_counts_for_each_slot(tmp_path, monkeypatch, output, count):
    program = tmp_path / "timeout"
    program.write_text(f"#!/bin/sh\ncat <<'END'\njob_number: 1\n{output}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert shepherd.requested("1", 3) == count


def test_a_job_that_qstat_does_not_show_gets_no_gpus(spool, tmp_path, monkeypatch):
    (tmp_path / "timeout").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "timeout").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    place = spool("1.1")
    shepherd.prepare(str(place), 2)
    assert gpus(place) == ""
