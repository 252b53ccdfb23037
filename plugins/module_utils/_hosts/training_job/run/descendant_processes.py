# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds and ends the descendants of a supervisor."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import signal
import time

# linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36


def adopt_descendants() -> None:
    """Make this process the parent of each descendant whose parent ends, so that end_descendants() finds all of them."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(child: int) -> None:
    """Collect the exit statuses of adopted processes, but not the exit status of `child`."""
    with contextlib.suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid == child:
                return
            os.waitpid(ended.si_pid, 0)


def end_descendants(patience: float = 30) -> bool:
    """Kill all descendants of this process, and wait at most `patience` seconds for them to end. Return whether all descendants have
    ended.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = descendants()
        if not left:
            return True
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)
    return False


def descendants() -> list[int]:
    parents: dict[int, int] = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            # The name of the program, in brackets, may contain spaces and brackets.
            parents[int(path.split("/")[2])] = int(file.read().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    grown = True
    while grown:
        more = {process for process, parent in parents.items() if parent in found} - found
        found, grown = found | more, bool(more)
    return sorted(found - {os.getpid()})
