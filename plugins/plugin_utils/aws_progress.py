# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shows the progress of a module on the controller while the module waits for AWS."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._text import clean_line
from . import in_process
from .output import ProgressLine, show

PAUSE_SECONDS = 0.5
# Seconds that an interrupted module has to finish its API calls and return its message.
LAST_SECONDS = 30
# The end of the lines that a module repeats while it waits: the elapsed seconds, and the timeout in seconds.
WAITING = re.compile(r", \d+ (?:of \d+ )?s\Z")
# Moves a terminal's cursor to the beginning of the line, and clears the line.
CLEAR_LINE = "\r\x1b[K"


def keep_errors() -> int | None:
    """Return a file descriptor for Ansible's standard error, because action processes do not inherit standard error."""
    try:
        return os.dup(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):
        return None


# Ansible loads this file before it starts processes for actions.
ERRORS = keep_errors()


def execute_watched(action: ActionBase, task_vars: dict[str, Any] | None, *, shares: bool = False) -> dict[str, Any]:
    """Run the action's module and show the lines of its progress file as they are written.

    With `shares`, the module runs in this process if possible. Such a module must end by itself after a signal (`interruptible`).

    On hosts other than the controller, only run the module.
    """
    arguments, variables = dict(action._task.args), task_vars or {}
    if action._connection.transport != "local" or arguments.get("progress_file"):
        return execute(action, arguments, variables)
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", prefix="deeplearning-") as file:
        arguments["progress_file"] = file.name
        watch = FileWatch(file.fileno())
        shares = shares and os.getpgrp() == os.getpid() and in_process.is_possible(action, variables)
        with last_words(watch.speak_directly, shares):
            watch.start()
            try:
                found = in_process.result_of(action, arguments) if shares else None
                return found or execute(action, arguments, variables)
            finally:
                watch.stop()


def execute(action: ActionBase, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    # While Ansible packs the module, it creates many objects and no garbage. Without this call, packing would take half as long again. This
    # process ends with the task.
    gc.disable()
    return dict(action._execute_module(action._task.action, module_args=arguments, task_vars=variables))


@contextlib.contextmanager
def last_words(interrupted: Callable[[], None], shares: bool = False) -> Iterator[None]:
    """Within this context, an interrupt gives the module up to LAST_SECONDS to exit by itself. With `shares`, it runs in this process.

    After the module has exited, this process exits too. Ansible sends SIGTERM right after SIGINT, but still waits for the
    action process to exit.
    """
    # If this process does not have its own process group, the module receives the terminal's signal directly.
    if threading.current_thread() is not threading.main_thread() or os.getpgrp() != os.getpid():
        yield
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    limit = threading.Timer(LAST_SECONDS, os.killpg, (0, signal.SIGKILL))
    limit.daemon = True

    def pass_on(number: int, _frame: Any) -> None:
        for each in handlers:
            signal.signal(each, signal.SIG_IGN)
        if received:  # the other signal arrived before it was ignored, and this function has already run for it
            return
        received.append(number)
        interrupted()
        limit.start()
        os.killpg(0, number)
        if shares and signal.set_wakeup_fd(-1) < 0:
            raise KeyboardInterrupt  # the module has not begun to watch for signals, or has ended

    for each in handlers:
        signal.signal(each, pass_on)
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        if received:
            os.kill(os.getpid(), received[0])


class FileWatch(threading.Thread):
    """Displays lines as they are appended to an open file, until `stop` is called."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._descriptor, self._rest = descriptor, b""
        self._over, self._is_direct = threading.Event(), False

    def run(self) -> None:
        # Python handles signals only in the main thread, and a signal that the kernel delivers to this thread would not wake up the main
        # thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while not self._over.wait(PAUSE_SECONDS):
            self._show()
        self._show()

    def stop(self) -> None:
        self._over.set()
        self.join()

    def speak_directly(self) -> None:
        """Write to standard error from now on, because Ansible does not display messages from action processes after an interrupt."""
        self._is_direct = True

    def _show(self) -> None:
        *lines, self._rest = (self._rest + os.read(self._descriptor, 1 << 16)).split(b"\n")
        for line in lines:
            # AWS also returns text from other sources, such as the messages of failed EMR steps
            text = clean_line(line.decode(errors="replace"))
            if not self._is_direct:
                show(ProgressLine(text) if WAITING.search(text) else text)
            elif ERRORS is not None:
                with contextlib.suppress(OSError):
                    os.write(ERRORS, (CLEAR_LINE.encode() if os.isatty(ERRORS) else b"") + text.encode() + b"\n")
