"""Holds calls before their execution, or before their response is sent, so that a test can kill the client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from .calls import Call, Environ, read_body

# Seconds between two checks of whether the client is still connected.
POLL = 0.05


class HeldCall:
    """A call that is held until it is resumed or its client disconnects."""

    def __init__(self, call: Call, stage: str) -> None:
        self.call = call
        self.stage = stage
        self.execute = True
        self.resumed = threading.Event()


class HeldCalls:
    """The held calls in the order of their arrival."""

    def __init__(self) -> None:
        self._calls: list[HeldCall] = []
        self._lock = threading.Lock()

    def hold(self, call: Call, stage: str, environ: Environ) -> bool:
        """Wait until the call is resumed or its client has disconnected. Return whether the call continues."""
        held = HeldCall(call, stage)
        read_body(environ)  # unread data would conceal the end of the connection
        disconnected = _disconnection_check(environ)
        with self._lock:
            self._calls.append(held)
        while not held.resumed.wait(POLL) and not disconnected():
            pass
        with self._lock:
            if held in self._calls:
                self._calls.remove(held)
        return held.execute and not disconnected()

    def resume(self, execute: bool = True) -> int:
        """Resume all held calls, and return their number. If `execute` is false, calls held before their execution are dropped."""
        with self._lock:
            released, self._calls = self._calls, []
        for held in released:
            held.execute = execute
            held.resumed.set()
        return len(released)

    def as_list(self) -> list[dict[str, str]]:
        """Return the held calls: service, action, and stage."""
        with self._lock:
            return [{"service": each.call.service, "action": each.call.action, "stage": each.stage} for each in self._calls]


def _disconnection_check(environ: Environ) -> Callable[[], bool]:
    """Return a function that returns whether the client has closed the connection. Calls that schedules make have no connection."""
    connection: socket.socket | None = environ.get("werkzeug.socket")

    def disconnected() -> bool:
        try:
            return connection is not None and connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    return disconnected
