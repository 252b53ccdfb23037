"""Kills programs at an API call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from local_cloud.testing import LocalCloud, wait_until


class Process(Protocol):
    """A process, such as one of `subprocess`."""

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def communicate(self) -> Any: ...


def kill_at(cloud: LocalCloud, start: Callable[[], Process], stage: str, **call: Any) -> bool:
    """Start a program, and kill it at a write call, before or after AWS has executed the call. Return whether it reached the call."""
    cloud.control.set_faults([{"read_only": False, "pause": stage, **call}])
    process = start()
    wait_until(lambda: cloud.control.paused() or process.poll() is not None)
    held = cloud.control.paused()
    process.kill()
    process.communicate()
    cloud.control.set_faults([])
    cloud.control.resume(execute=False)
    return bool(held)
