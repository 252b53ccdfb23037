"""What the AWS half asks of whatever turns an instance into a host, and the runtime without hosts."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

CLIENT = ["ClientMount", "ClientWrite", "ClientRootAccess"]
OPEN: dict[str, Any] = {"plain": CLIENT, "tls": CLIENT, "access_points": {}}
"""What clients may do where no policy says otherwise: see aws/file_system_access.py."""


@dataclass(frozen=True)
class HostSpec:
    """Everything an instance needs to become a host."""

    instance_id: str
    network: str
    """VPC id: hosts with the same one reach each other."""
    network_cidr: str
    private_ip: str
    public_ip: str | None
    """A loopback address (127.x.y.z) that leads to the host's ssh port, or None."""
    hostname: str
    user_data: bytes
    public_keys: tuple[str, ...]
    """OpenSSH public key lines for the image's default user."""
    image_id: str
    instance_type: str
    zone: str
    region: str


class HostInterface(Protocol):
    """Turns instances into hosts. Methods are called from several threads, never under the lock of the AWS half."""

    def start(self, spec: HostSpec) -> None:
        """Create the host, or start the one that exists. Raises RuntimeError(text) when it cannot be had."""

    def is_booted(self, instance_id: str) -> bool:
        """Whether sshd answers."""

    def is_alive(self, instance_id: str) -> bool:
        """Whether the host exists and runs."""

    def stop(self, instance_id: str) -> None:
        """Stop the host and keep its disk. Nothing happens when it is gone."""

    def remove(self, instance_id: str) -> None:
        """Remove the host and its disk. Nothing happens when it is gone."""

    def console_output(self, instance_id: str) -> str:
        """What the host wrote to its console, '' when it is gone."""

    def socket(self, instance_id: str) -> Path | None:
        """Where the instance's host looks for AWS: a Unix socket that whoever serves AWS makes. None while there is no host."""

    def export(self, file_system_id: str, servers: Collection[str], access: Mapping[str, Any] = OPEN) -> None:
        """Let hosts mount the file system (made on first use) from exactly these DNS names and addresses of its available mount targets.

        `access` is what they may do there.
        """

    def delete_file_system(self, file_system_id: str) -> None:
        """Delete the file system with all that is on it. Nothing happens when it is gone."""


class NoHosts:
    """A runtime whose hosts boot at once and are nothing but a name: for benchmarks and tests of the API alone."""

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._lock = threading.Lock()

    def start(self, spec: HostSpec) -> None:
        with self._lock:
            self._running.add(spec.instance_id)

    def is_booted(self, instance_id: str) -> bool:
        return self.is_alive(instance_id)

    def is_alive(self, instance_id: str) -> bool:
        with self._lock:
            return instance_id in self._running

    def stop(self, instance_id: str) -> None:
        with self._lock:
            self._running.discard(instance_id)

    remove = stop

    def console_output(self, instance_id: str) -> str:
        return ""

    def socket(self, instance_id: str) -> Path | None:
        return None

    def export(self, file_system_id: str, servers: Collection[str], access: Mapping[str, Any] = OPEN) -> None:
        """Without hosts nobody mounts it."""

    def delete_file_system(self, file_system_id: str) -> None:
        """Without hosts nothing is on it."""
