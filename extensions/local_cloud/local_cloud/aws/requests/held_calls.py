"""Calls that are held where a test can kill their client: before they are executed, or before their answer leaves."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from .calls import Call, Environ, read_body

POLL = 0.05
"""Seconds between two looks at whether a client is still there."""


class HeldCall:
    """A call that is being held."""

    def __init__(self, call: Call, stage: str) -> None:
        self.call = call
        self.stage = stage
        self.execute = True
        self.resumed = threading.Event()


class HeldCalls:
    """The calls that are held now, in the order in which they came."""

    def __init__(self) -> None:
        self._calls: list[HeldCall] = []
        self._lock = threading.Lock()

    def hold(self, call: Call, stage: str, environ: Environ) -> bool:
        """Wait until the call is resumed or its client is gone. Returns whether it is to go on."""
        held = HeldCall(call, stage)
        read_body(environ)  # or what is left of it would hide the end of the connection
        gone = _is_gone(environ)
        with self._lock:
            self._calls.append(held)
        while not held.resumed.wait(POLL) and not gone():
            pass
        with self._lock:
            if held in self._calls:
                self._calls.remove(held)
        return held.execute and not gone()

    def resume(self, execute: bool = True) -> int:
        """Let all held calls go; those held before their execution are dropped unless `execute`. Returns how many there were."""
        with self._lock:
            released, self._calls = self._calls, []
        for held in released:
            held.execute = execute
            held.resumed.set()
        return len(released)

    def as_list(self) -> list[dict[str, str]]:
        """The held calls: service, action, and the stage at which each is held."""
        with self._lock:
            return [{"service": each.call.service, "action": each.call.action, "stage": each.stage} for each in self._calls]


def _is_gone(environ: Environ) -> Callable[[], bool]:
    """What tells whether the other end of a request's connection has been closed."""
    connection: socket.socket = environ["werkzeug.socket"]

    def gone() -> bool:
        try:
            return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    return gone
