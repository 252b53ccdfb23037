# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Limits the time and the memory of an Ansible worker process."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Maximum memory in bytes for processing a response. While Ansible reads a command's output, it keeps several copies of the output.
MEMORY_LIMIT = 1 << 30


class SilenceError(BaseException):
    """A node has not responded in time.

    This class is not a subclass of Exception, because connection plugins would catch such an exception and retry.
    """


def seconds_of(value: Any) -> int:
    """Return an option of a module that is a number of seconds, or 0 if it is not set."""
    return int(value) if str(value).isdecimal() else 0


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise SilenceError if the code in this context runs longer than `seconds`.

    If Ansible has set its own time limit, only that limit applies.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def end(*_: Any) -> None:
        raise SilenceError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """Raise MemoryError if the code in this context needs more than `size` bytes of additional memory.

    Ansible reads the whole output of a command before it returns any of it. The limit applies to this process, which Ansible has started
    for one host, and to each of its child processes. Without `/proc`, for example on macOS, there is no limit.
    """
    try:
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except OSError:
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (min(each for each in (used + size, before, hard) if each != resource.RLIM_INFINITY), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def end_children(parent: int | None = None) -> None:
    """Terminate the child processes that are still waiting for the node: ssh, and the ProxyCommand that it runs.

    On systems other than Linux, these processes keep running.
    """
    pid = parent or os.getpid()
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            end_children(int(child))
            os.kill(int(child), signal.SIGTERM)
