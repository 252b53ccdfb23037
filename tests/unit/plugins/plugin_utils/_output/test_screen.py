"""Tests of the output while a task is silent."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output import screen as module
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output.screen import Screen
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.aws_progress import CLEAR_LINE
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.output import ProgressLine


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture(params=[False, True], ids=["file", "terminal"])
def screen(request, clock, monkeypatch):
    """Return a screen in the stage `Run`. Its attribute `written` lists the texts that it has written."""
    monkeypatch.setattr(module.sys.stdout, "isatty", lambda: request.param, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    written = []
    display = SimpleNamespace(display=lambda text, **_: written.append(text), _lock=threading.RLock())
    screen = Screen(display)
    screen.stage("Run")
    screen.task("Stop the job")
    screen.written, screen.rewrites = written, request.param
    return screen


def after(screen, clock, *seconds):
    """Return the texts that are written during a silence, if the screen is updated after each of these numbers of seconds."""
    began, screen.written[:] = clock.now, []
    for each in seconds:
        clock.now = began + each
        screen.break_silence()
    return screen.written


def test_a_silent_task_is_named_with_its_run_time(screen, clock):
    expected = [f"{CLEAR_LINE}Run: Stop the job, {seconds} s" for seconds in (3, 19, 20, 30, 40)]
    shown = after(screen, clock, 1, 3, 19, 20, 30, 40)
    assert shown == (expected if screen.rewrites else ["Run", "  Stop the job, 20 s", "  Stop the job, 40 s"])


def test_the_longer_a_task_runs_the_rarer_are_its_lines(screen, clock):
    if screen.rewrites:
        return
    shown = after(screen, clock, *range(1000))
    assert 20 < len(shown) < 40


def test_a_line_of_the_task_breaks_the_silence(screen, clock):
    clock.now += 19
    screen.display(ProgressLine("digits: step 3"))
    assert after(screen, clock, 1, 5, 19) == []


def test_a_question_is_not_interrupted(screen, clock):
    """Ansible holds the lock of its display in another thread while it waits for an answer."""
    locked, over = threading.Event(), threading.Event()

    def ask():
        with screen._display._lock:
            locked.set()
            over.wait()

    thread = threading.Thread(target=ask)
    thread.start()
    locked.wait()
    assert after(screen, clock, 60) == []
    over.set()
    thread.join()
    assert after(screen, clock, 61) != []


def test_nothing_follows_the_last_line(screen, clock):
    screen.end("Done in 19 s.")
    assert after(screen, clock, 60) == []
