"""Tests of the metrics files in a directory of a host."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import host_metrics

DAY = 86400


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "metrics").mkdir()
    return {
        "job": "digits",
        "directory": str(tmp_path / "jobs/digits"),
        "parameters": {"cluster": "demo", "metrics_directory": str(tmp_path / "metrics"), "heartbeat_timeout": 60},
    }


class StopError(Exception):
    """Ends the loop of the thread."""


def update(spec, monkeypatch, rounds=1):
    """Run the loop of the thread in this thread."""
    left = iter(range(rounds - 1))

    def sleep(_seconds):
        if next(left, None) is None:
            raise StopError

    with monkeypatch.context() as changes:
        changes.setattr(host_metrics, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))  # other threads sleep as usual
        with pytest.raises(StopError):
            host_metrics._update(spec)


def test_a_job_deletes_the_files_of_jobs_that_have_ended(spec, tmp_path, monkeypatch, capsys):
    now = time.time()
    for name, age in (
        ("deeplearning-ended.prom", DAY + 60),
        ("deeplearning-runs.prom", 60),
        ("deeplearning-recent.prom", DAY - 60),
        ("node.prom", 2 * DAY),
        ("deeplearning-notes.txt", 2 * DAY),
    ):
        path = tmp_path / "metrics" / name
        path.touch()
        os.utime(path, (now - age, now - age))
    (tmp_path / "metrics/deeplearning-directory.prom").mkdir()
    os.utime(tmp_path / "metrics/deeplearning-directory.prom", (1.0, 1.0))
    update(spec, monkeypatch)
    assert {path.name for path in (tmp_path / "metrics").iterdir()} == {
        "deeplearning-runs.prom",
        "deeplearning-recent.prom",
        "node.prom",
        "deeplearning-notes.txt",
        "deeplearning-directory.prom",
    }
    assert "cannot delete " in capsys.readouterr().err


def test_the_files_of_other_users_stay(spec, tmp_path, monkeypatch):
    path = tmp_path / "metrics/deeplearning-ended.prom"
    path.touch()
    os.utime(path, (1.0, 1.0))
    own = os.geteuid()
    monkeypatch.setattr(host_metrics.os, "geteuid", lambda: own + 1)
    update(spec, monkeypatch)
    assert path.exists()


def test_after_any_error_the_next_update_writes_the_metrics(spec, monkeypatch, capsys):
    calls = []

    def read_status(_paths, _timeout):
        calls.append(1)
        raise KeyError("ranks")

    monkeypatch.setattr(host_metrics, "read_status", read_status)
    update(spec, monkeypatch, rounds=2)
    assert len(calls) == 2
    assert "deeplearning-digits.prom: KeyError('ranks')" in capsys.readouterr().err
