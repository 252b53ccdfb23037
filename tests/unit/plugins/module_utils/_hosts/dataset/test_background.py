"""Tests that data sets are staged in the background, one at a time."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import s3
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.background import Background
from local_cloud.testing import wait_until


def test_work_goes_on_in_the_background_one_at_a_time(tmp_path):
    work, go, calls = Background(str(tmp_path / "work")), tmp_path / "go", tmp_path / "calls"

    def task():
        with calls.open("a") as file:
            file.write("x")
        wait_until(go.exists)
        Path(work.progress).write_text('{"stage": "ended"}')

    work.start({"attempt": "1"}, task)
    wait_until(calls.exists)
    work.start({"attempt": "2"}, task)
    assert (work.is_running(), work.attempt(), work.wait(0.1)) == (True, {"attempt": "1"}, False)
    go.touch()
    os.utime(tmp_path / "work" / "attempt.json", (0, time.time() - 90))
    assert 90 <= work.seconds() < 180
    assert work.wait(120)
    assert (work.state(), calls.read_text()) == ({"stage": "ended"}, "x")


def test_what_the_work_has_started_holds_the_lock_too(tmp_path):
    work, pid = Background(str(tmp_path / "work")), tmp_path / "pid"

    def task():
        process = s3.start(["sleep", "60"])
        pid.write_text(f"{os.getpid()} {process.pid}")
        process.wait()

    work.start({}, task)
    wait_until(lambda: pid.exists() and len(pid.read_text().split()) == 2)
    own, started = map(int, pid.read_text().split())
    os.kill(own, signal.SIGKILL)
    time.sleep(0.2)
    assert work.is_running(), "no second curl may append to the same file"
    os.kill(started, signal.SIGKILL)
    assert work.wait(120)
    assert work.state() == {}
