# Copyright: Contributors to the deeplearning.cluster project
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


def serve(listener: socket.socket, examine: Callable[[], list[dict[str, Any]]]) -> None:
    """Answer requests with the findings until there has been no request for some seconds."""
    while True:
        requests = _accept(listener, IDLE)
        if not requests:
            return
        answer = json.dumps(examine()).encode()
        for connection in [*requests, *_accept(listener, 0)]:
            with contextlib.suppress(OSError), connection:
                connection.settimeout(SENDING)
                connection.sendall(answer)


def _accept(listener: socket.socket, seconds: float) -> list[socket.socket]:
    """Return the connections that wait, or the first one that arrives within some seconds."""
    found: list[socket.socket] = []
    listener.settimeout(seconds)
    with contextlib.suppress(OSError):
        while True:
            found.append(listener.accept()[0])
            listener.settimeout(0)
    return found
