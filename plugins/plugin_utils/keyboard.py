# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lets an action handle Ctrl-C while it waits, so that Ctrl-C does not interrupt Ansible."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
from types import FrameType
from typing import Any, Callable, Iterator

# Seconds between two checks of whether Ansible is still running.
POLL_SECONDS = 0.5


def is_under_runner() -> bool:
    """Return whether ansible-runner has started Ansible, as in AWX and ansible-navigator: in a terminal at which nobody answers."""
    return "AWX_ISOLATED_DATA_DIR" in os.environ


def keep_terminal() -> int | None:
    """Return a file descriptor for the terminal if only Ansible uses it, otherwise None (for example, with a pipe to `less`)."""
    try:
        descriptor = sys.stdin.fileno()
        if not is_under_runner() and sys.stdout.isatty() and os.getpgrp() == os.tcgetpgrp(descriptor):
            return os.dup(descriptor)
    except (AttributeError, OSError, ValueError):
        pass
    return None


# Actions run in separate processes without standard input or a terminal. Ansible loads this file before it starts these processes.
TERMINAL = keep_terminal()


@contextlib.contextmanager
def interrupts(notice: Callable[[], None]) -> Iterator[bool]:
    """Within this context, Ctrl-C calls `notice` in a thread. Yields True if there is a terminal, and False otherwise.

    The terminal treats Ctrl-C as an ordinary character within this context, so that Ansible's main process gets no signal.
    """
    # Without its own session, this process would be stopped when it uses the terminal from the background.
    if TERMINAL is None or os.getsid(0) != os.getpid():
        yield False
        return
    keyboard = Keyboard(TERMINAL, notice)
    with keyboard.restored_at_signals():
        keyboard.start()
        try:
            yield True
        finally:
            keyboard.stop()


class Keyboard(threading.Thread):
    """Reads and discards what the user types, except for Ctrl-C."""

    def __init__(self, terminal: int, notice: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._terminal, self._notice = terminal, notice
        self._settings = termios.tcgetattr(terminal)
        self._interrupt = self._settings[6][termios.VINTR]
        self._parent = os.getppid()
        self._over = threading.Event()

    def start(self) -> None:
        changed = list(self._settings)
        changed[3] &= ~(termios.ISIG | termios.ICANON | termios.ECHO)
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, changed)
        super().start()

    def run(self) -> None:
        try:
            while not self._over.is_set() and os.getppid() == self._parent:
                if not select.select([self._terminal], [], [], POLL_SECONDS)[0]:
                    continue
                typed = os.read(self._terminal, 64)
                if not typed:  # the terminal no longer exists
                    return
                if self._interrupt in typed:
                    self._notice()
        except OSError:
            pass
        finally:
            self.restore()

    def stop(self) -> None:
        self._over.set()
        self.join()

    def restore(self) -> None:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._settings)

    @contextlib.contextmanager
    def restored_at_signals(self) -> Iterator[None]:
        """Restore the terminal's settings even if Ansible terminates this process."""
        handlers: dict[int, Any] = {}

        def handle(number: int, frame: FrameType | None) -> None:
            self.restore()
            signal.signal(number, handlers[number])
            os.kill(os.getpid(), number)

        for each in (signal.SIGINT, signal.SIGTERM):
            handlers[each] = signal.signal(each, handle)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
