"""The interface between the AWS API and the hosts of instances, and its implementation without hosts."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

CLIENT = ["ClientMount", "ClientWrite", "ClientRootAccess"]
# The actions that clients may perform on a file system without a policy: see aws/efs/file_system_policies.py.
OPEN: dict[str, Any] = {"plain": CLIENT, "tls": CLIENT, "access_points": {}}


@dataclass(frozen=True)
class HostSpec:
    """The properties of an instance that its host needs."""

    instance_id: str
    # VPC ID. Hosts in the same VPC can reach each other.
    network: str
    network_cidr: str
    private_ip: str
    # A loopback address (127.x.y.z) that forwards to the host's SSH port, or None.
    public_ip: str | None
    hostname: str
    user_data: bytes
    # OpenSSH public keys of the image's default user.
    public_keys: tuple[str, ...]
    image_id: str
    instance_type: str
    zone: str
    region: str
    # Programs in /usr/local/sbin that the image lacks.
    lacks: tuple[str, ...] = ()


class HostInterface(Protocol):
    """Starts and stops the hosts that stand in for EC2 instances.

    Several threads call the methods. They do not hold the lock of the AWS API, except for `modified`, which does not wait.
    """

    def start(self, spec: HostSpec) -> None:
        """Create the host, or start the existing one. Raises `RuntimeError`."""

    def is_booted(self, instance_id: str) -> bool:
        """Return whether sshd accepts connections."""

    def is_alive(self, instance_id: str) -> bool:
        """Return whether the host exists and is running."""

    def is_rebooting(self, instance_id: str) -> bool:
        """Return whether the host has ended because a program on it has requested a reboot."""

    def modified(self, instance_id: str, path: str) -> float | None:
        """Return when a file on the host was modified, in seconds since the epoch, or None if this is unknown."""

    def stop(self, instance_id: str) -> None:
        """Stop the host and keep its disk. An unknown host is ignored."""

    def remove(self, instance_id: str) -> None:
        """Remove the host and its disk. An unknown host is ignored."""

    def console_output(self, instance_id: str, *, latest: bool = True) -> str:
        """Return the console output of the host, or '' for an unknown host.

        If `latest` is false, return only what the host has printed shortly after its last start.
        """

    def socket(self, instance_id: str) -> Path | None:
        """Return the path at which the AWS API creates the host's Unix socket, or None if the host does not exist."""

    def export(self, file_system_id: str, servers: Collection[str], access: Mapping[str, Any] = OPEN) -> None:
        """Let hosts mount the file system only from these servers. The file system is created on first use.

        `access` contains the allowed actions of clients, as `file_system_policies.client_access` returns them.
        """

    def delete_file_system(self, file_system_id: str) -> None:
        """Delete the file system and its data. An unknown file system is ignored."""


class NoHosts:
    """Simulated hosts that boot immediately, for benchmarks and for tests of the API."""

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._lock = threading.Lock()
        self.consoles: dict[str, str] = {}  # what tests let instances print

    def start(self, spec: HostSpec) -> None:
        with self._lock:
            self._running.add(spec.instance_id)

    def is_booted(self, instance_id: str) -> bool:
        return self.is_alive(instance_id)

    def is_alive(self, instance_id: str) -> bool:
        with self._lock:
            return instance_id in self._running

    def is_rebooting(self, instance_id: str) -> bool:
        return False

    def modified(self, instance_id: str, path: str) -> float | None:
        return None

    def stop(self, instance_id: str) -> None:
        with self._lock:
            self._running.discard(instance_id)

    remove = stop

    def console_output(self, instance_id: str, *, latest: bool = True) -> str:
        return self.consoles.get(instance_id, "") if latest else ""

    def socket(self, instance_id: str) -> Path | None:
        return None

    def export(self, file_system_id: str, servers: Collection[str], access: Mapping[str, Any] = OPEN) -> None:
        """Do nothing: without hosts, nothing mounts the file system."""

    def delete_file_system(self, file_system_id: str) -> None:
        """Do nothing: without hosts, the file system has no data."""
