"""Tests of the thread that shows a module's progress, and of signals and garbage collections while the module runs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from unittest.mock import MagicMock

from ansible_collections.deeplearning.cluster.plugins.plugin_utils import aws_progress


def test_interrupts_reach_the_main_thread(tmp_path):
    """Python handles signals only in the main thread, and a signal for another thread does not wake up the main thread."""
    with open(tmp_path / "progress", "wb+", buffering=0) as file:
        watch = aws_progress.FileWatch(file.fileno())
        watch.start()
        try:
            status = Path(f"/proc/self/task/{watch.native_id}/status")
            deadline = time.monotonic() + 10
            blocked = 0
            while not blocked and time.monotonic() < deadline:
                fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
                blocked = int(fields["SigBlk"], 16)
        finally:
            watch.stop()
    assert {number for number in signal.Signals if blocked >> (number - 1) & 1} == {signal.SIGINT, signal.SIGTERM}


def test_a_second_signal_that_arrives_before_it_is_ignored_does_not_end_the_process():
    """Ansible sends SIGTERM right after SIGINT."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            change, sent = signal.signal, []

            def late(number, handler):
                if handler is signal.SIG_IGN and not sent:
                    sent.append(number)
                    os.kill(os.getpid(), signal.SIGTERM)
                return change(number, handler)

            signal.signal = late
            with aws_progress.last_words(lambda: os.write(writer, b"asked ")):
                os.kill(os.getpid(), signal.SIGINT)
                os.write(writer, b"went on")
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == b"asked went on"
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_no_garbage_is_collected_while_a_module_is_packed(monkeypatch):
    calls = []
    monkeypatch.setattr(aws_progress.gc, "disable", lambda: calls.append("disable"))
    action = MagicMock()
    action._execute_module.side_effect = lambda *_arguments, **_options: calls.append("module") or {}
    aws_progress.execute_watched(action, {})
    assert calls == ["disable", "module"]


def test_a_module_in_this_process_may_end_after_a_signal_only_if_it_watches_for_signals():
    """Otherwise, it would go on and change something."""
    ended = {}
    for watches in (True, False):
        child = os.fork()
        if not child:
            try:
                os.setsid()
                _reader, writer = os.pipe()
                os.set_blocking(writer, False)
                with aws_progress.last_words(lambda: None, shares=True):
                    signal.set_wakeup_fd(writer if watches else -1)
                    os.kill(os.getpid(), signal.SIGTERM)
                    os._exit(7)
            finally:
                os._exit(1)
        ended[watches] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == {True: 7, False: -signal.SIGTERM}
