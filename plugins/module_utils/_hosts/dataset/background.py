# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs work in the background. The work continues after the module exits or the connection to the host closes.

The work is not a unit of systemd, because the module runs as the login user, who may not start units and may have no user manager.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import traceback
from typing import Any, Callable, Mapping

from ..services import wait_until

FOLDER = "~/.cache/deeplearning/datasets"
POLL_SECONDS = 0.2


def work(name: str) -> Background:
    return Background(os.path.join(os.path.expanduser(FOLDER), name))


class Background:
    """Background work, identified by its folder. A lock in the folder ensures that only one process at a time does the work."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.progress, self.log = os.path.join(folder, "progress.json"), os.path.join(folder, "log")

    def start(self, attempt: Mapping[str, Any], work: Callable[[], None]) -> None:
        """Start the work in a separate process unless it is already running.

        Store `attempt`, so that later calls to `attempt()` return it.
        """
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with open(os.path.join(self._folder, "lock"), "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            self._forget()
            with open(os.path.join(self._folder, "attempt.json"), "w", encoding="utf-8") as file:
                json.dump(dict(attempt), file)
            child = os.fork()
            if child == 0:
                self._detach(lock.fileno(), work)
            os.waitpid(child, 0)

    def attempt(self) -> dict[str, Any] | None:
        """Return the `attempt` that was stored when the work last started, or None if the work has never started."""
        return _read(os.path.join(self._folder, "attempt.json"))

    def state(self) -> dict[str, Any]:
        """Return the recorded progress of the work, or an empty dictionary if there is none."""
        return _read(self.progress) or {}

    def seconds(self) -> int:
        """Return the number of seconds since the work was last started."""
        try:
            return int(time.time() - os.stat(os.path.join(self._folder, "attempt.json")).st_mtime)
        except FileNotFoundError:
            return 0

    def is_running(self) -> bool:
        """Return whether the work, or a process that it started, is still running."""
        try:
            with open(os.path.join(self._folder, "lock"), encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def wait(self, seconds: float) -> bool:
        return wait_until(lambda: not self.is_running(), seconds, POLL_SECONDS)

    def _forget(self) -> None:
        if os.path.exists(self.progress):
            os.unlink(self.progress)

    def _detach(self, lock: int, work: Callable[[], None]) -> None:
        """Detach from the terminal and the parent process, do the work, and exit. Never returns."""
        status = 1
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            os.set_inheritable(lock, True)
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for target, source in ((0, nothing), (1, log), (2, log)):
                os.dup2(source, target)
            work()
            status = 0
        except BaseException:  # pylint: disable=broad-exception-caught
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(status)


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None
