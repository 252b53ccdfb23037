# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes Ansible's output below the heading of the current stage. On a terminal, rewrites the progress line below the output."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import time
from typing import Any

from ..aws_progress import CLEAR_LINE
from ..output import ProgressLine
from .folding import cut, folded

INDENT = "  "
NUMBER = re.compile(r"\d+")
# Minimum time between two progress lines if lines cannot be rewritten, in seconds and as a fraction of the task's run time.
PROGRESS_SECONDS, PROGRESS_SHARE = 10.0, 0.1
# Seconds without output after which the name of the running task is shown with its run time: in a new line, or in the progress line.
SILENCE_SECONDS, REWRITE_SECONDS = 20.0, 3.0


class Screen:
    """Replaces the method `display` of Ansible's Display, which writes every line of output."""

    def __init__(self, display: Any) -> None:
        self._display, self._write = display, display.display
        self._process, self._lock = os.getpid(), threading.RLock()
        self._rewrites = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._folds = sys.stdout.isatty() or "COLUMNS" in os.environ
        self._has_progress = False
        self._heading, self._is_headed = "", False
        self._task, self._task_began, self._told = "", time.monotonic(), dict[str, float]()
        self._shows_task, self._written = False, time.monotonic()

    def install(self) -> None:
        """Replace the method `display`, so that this object receives every line of output."""
        if self._display.display != self.display:
            self._display.display = self.display
            atexit.register(self.clear)
            threading.Thread(target=self._watch, daemon=True).start()

    def stage(self, heading: str) -> None:
        """Begin a stage. The stage's heading is written before the first line of the stage."""
        if heading != self._heading:
            self._heading, self._is_headed = heading, False

    def task(self, name: str) -> None:
        """Begin a task. On a terminal, the task's name is shown as the progress line."""
        with self._lock:
            self._task, self._task_began, self._told = name, time.monotonic(), {}
            if self._rewrites:
                self._rewrite_task(name)

    def end(self, line: str, **options: Any) -> None:
        """Write a line that does not belong to a stage, after the last task."""
        with self._lock:
            self._task = ""
            self.clear()
            self._put(line, **options)

    def display(
        self,
        msg: str,
        color: str | None = None,
        stderr: bool = False,
        screen_only: bool = False,
        log_only: bool = False,
        newline: bool = True,
        caplevel: int | None = None,
    ) -> None:
        options = {"color": color, "stderr": stderr, "screen_only": screen_only, "newline": newline, "caplevel": caplevel}
        # Task processes pass their messages to the main process.
        if os.getpid() != self._process or log_only:
            self._write(msg, log_only=log_only, **options)
            return
        with self._lock:
            if isinstance(msg, ProgressLine):
                self._progress(str(msg))
                return
            self.clear()
            if not stderr and newline:
                self._write_heading()
                msg = textwrap.indent(msg, INDENT)
            self._put(msg, **options)

    def clear(self) -> None:
        with self._lock:
            self._shows_task = False
            if self._has_progress:
                self._has_progress = False
                self._put(CLEAR_LINE, newline=False, screen_only=True)

    def break_silence(self) -> None:
        """Show the name of the running task and its run time if nothing has been written for a while.

        Do nothing while Ansible waits for the answer to a prompt, because Ansible's display is locked during that time.
        """
        with self._lock:
            if not self._display._lock.acquire(blocking=False):
                return
            try:
                now = time.monotonic()
                elapsed, silent = now - self._task_began, now - self._written
                line = f"{self._task}, {elapsed:.0f} s"
                if self._shows_task and elapsed >= REWRITE_SECONDS:
                    self._rewrite_task(line)
                elif self._task and not self._rewrites and silent >= max(SILENCE_SECONDS, elapsed * PROGRESS_SHARE):
                    self._write_progress(line)
            finally:
                self._display._lock.release()

    def _watch(self) -> None:
        # Python handles signals only in the main thread, and a signal that the kernel delivers to this thread would not wake up the main
        # thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while True:
            time.sleep(1)
            self.break_silence()

    def _progress(self, line: str) -> None:
        self._shows_task = False
        if self._rewrites:
            self._write(line, log_only=True)
            self._write_heading()
            self._rewrite(INDENT + line)
            return
        now = time.monotonic()
        subject = line.partition(":")[0] if ":" in line else NUMBER.sub("", line)
        pause = max(PROGRESS_SECONDS, (now - self._task_began) * PROGRESS_SHARE)
        if subject not in self._told or now - self._told[subject] >= pause:
            self._told[subject] = now
            self._write_progress(line)

    def _write_progress(self, line: str) -> None:
        self._write_heading()
        self._put(INDENT + line)

    def _rewrite_task(self, line: str) -> None:
        self._rewrite(f"{INDENT}{line}" if self._is_headed else f"{self._heading}: {line}")
        self._shows_task = True

    def _rewrite(self, line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._has_progress = True
        self._put(CLEAR_LINE + cut(line, width), newline=False, screen_only=True)

    def _write_heading(self) -> None:
        if self._heading and not self._is_headed:
            self._is_headed = True
            self.clear()
            self._put(self._heading)

    def _put(self, text: str, **options: Any) -> None:
        self._written = time.monotonic()
        if self._folds and options.get("newline", True):
            text = folded(text, shutil.get_terminal_size().columns)
        try:
            self._write(text, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            end_quietly()
        except OSError:
            pass  # for example, the disk with the output is full


def end_quietly() -> None:
    """End the run, because the program that reads its output has ended, such as `head`. Jobs continue on their hosts."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    os.kill(os.getpid(), signal.SIGTERM)
