# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Answers supervisors, which run as the job's user, with the findings of health checks that root runs after a failure of a job.

systemd starts this program when a supervisor connects to the socket (see service.py). The program reads nothing from the connection. Every
user of the host may request the checks, so a request that arrives while the checks run gets their result.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any, Callable

# The file descriptor of the socket. Source: sd_listen_fds(3).
LISTENER = 3
# Seconds without a request after which the program ends. systemd starts the program again for the next request.
IDLE = 5.0
# Seconds for sending a result.
SENDING = 1.0
# Maximum number of requests that get the same result. By default, no more connections than this wait at a socket (net.core.somaxconn).
SHARED = 4096


def serve(listener: socket.socket, examine: Callable[[], list[dict[str, Any]]]) -> None:
    """Answer requests with the findings until there has been no request for some seconds."""
    while True:
        first = _accept(listener, IDLE)
        if first is None:
            return
        with first:
            answer = json.dumps(examine()).encode()
            # No more than two connections are open at a time, so that users cannot use up the file descriptors.
            for _number in range(SHARED):
                other = _accept(listener, 0)
                if other is None:
                    break
                with other:
                    _send(other, answer)
            _send(first, answer)


def _accept(listener: socket.socket, seconds: float) -> socket.socket | None:
    """Return a connection that waits or that arrives within some seconds."""
    listener.settimeout(seconds)
    try:
        return listener.accept()[0]
    except OSError:
        return None


def _send(connection: socket.socket, answer: bytes) -> None:
    connection.settimeout(SENDING)
    with contextlib.suppress(OSError):
        connection.sendall(answer)
