# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the health checks after a failure, as root, for supervisors, which run as the job's user.

systemd starts this program when a supervisor connects to the socket (see _hosts/training_job/health_service.py). The program reads
nothing from the connection. Every user of the host may request the checks, so a request that arrives while the checks run gets their
result.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Callable, Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import exclude, registry, run
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.check import AFTER_FAILURE, CheckedNode, HealthFinding

# The file descriptor of the socket. Source: sd_listen_fds(3).
LISTENER = 3
# Seconds without a request after which the program ends. systemd starts the program again for the next request.
IDLE = 5.0
# Seconds for sending a result.
SENDING = 1.0


def serve(listener: socket.socket, examine: Callable[[], list[HealthFinding]]) -> None:
    """Answer requests with the findings until there has been no request for some seconds."""
    while True:
        requests = _accept(listener, IDLE)
        if not requests:
            return
        answer = json.dumps([finding._asdict() for finding in examine()]).encode()
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


def examine(instance: str, node: CheckedNode) -> list[HealthFinding]:
    """Run the checks, exclude the host if a finding requires it, and return the findings that require it."""
    checks = registry.checks_for(AFTER_FAILURE, ())
    findings = run.run(checks, node)
    exclude.update(instance, checks, findings, time.time())
    return [finding for finding in findings if exclude.requires_exclusion(finding)]


def main(arguments: Sequence[str]) -> int:
    instance, metadata_directory, instance_type, efa_devices = arguments
    node = CheckedNode("root", instance_type, int(efa_devices), metadata_directory=metadata_directory)
    serve(socket.socket(fileno=LISTENER), lambda: examine(instance, node))
    return 0
