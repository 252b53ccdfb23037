"""Exports EFS and FSx file systems to hosts while the file systems exist in the API."""

from __future__ import annotations

import logging
import threading
from typing import Any

from moto.efs.models import efs_backends
from moto.fsx.models import fsx_backends

from .aws.context import CLOUD
from .aws.efs.file_system_policies import client_access
from .host_interface import OPEN, HostInterface

LOG = logging.getLogger(__name__)
INTERVAL = 0.2


class Exports:
    """A thread that exports file systems to hosts, and deletes the data of deleted file systems."""

    def __init__(self, hosts: HostInterface) -> None:
        self._hosts = hosts
        # The file systems that this process has exported. The thread never deletes the data of other file systems, even if the state was
        # lost.
        self._served: dict[str, tuple[frozenset[str], dict[str, Any]]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exports", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. Exports are kept."""
        self._closing.set()
        self._thread.join()

    def update(self) -> None:
        """Export new and changed file systems, and delete the data of deleted file systems."""
        with CLOUD.lock:
            access = client_accesses()
            served = {identifier: (servers, access.get(identifier, OPEN)) for identifier, servers in served_file_systems().items()}
        for file_system_id in self._served.keys() - served.keys():
            self._hosts.delete_file_system(file_system_id)
        for file_system_id, (servers, allowed) in served.items():
            if self._served.get(file_system_id) != (servers, allowed):
                self._hosts.export(file_system_id, servers, allowed)
        self._served = served

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL):
            try:
                self.update()
            except Exception:
                LOG.exception("File systems could not be exported")


def served_file_systems() -> dict[str, frozenset[str]]:
    """Return the servers of every file system, keyed by file system ID. A file system that cannot be mounted has no servers.

    The servers of an EFS file system are the DNS names and addresses of its available mount targets. The server of a Lustre file system is
    `DNS name@tcp:mount name`.
    """
    efs = {
        file_system.file_system_id: frozenset(_servers(file_system.file_system_id, backend, region))
        for region, backend in _backends(efs_backends)
        for file_system in backend.file_systems_by_id.values()
    }
    lustre = {
        file_system.file_system_id: frozenset(_lustre_servers(file_system))
        for _region, backend in _backends(fsx_backends)
        for file_system in backend.file_systems.values()
        if file_system.file_system_type == "LUSTRE"
    }
    return {**efs, **lustre}


def client_accesses() -> dict[str, dict[str, Any]]:
    """Return the actions that clients may perform on each EFS file system."""
    return {
        file_system.file_system_id: client_access(backend, file_system)
        for _region, backend in _backends(efs_backends)
        for file_system in backend.file_systems_by_id.values()
    }


def _backends(service: Any) -> list[tuple[str, Any]]:
    return [(region, backend) for _account, region, backend in service.iter_backends()]


def _lustre_servers(file_system: Any) -> list[str]:
    mountable = file_system.life_cycle_state in ("available", "updating")
    return [f"{file_system.dns_name}@tcp:{file_system.mount_name}"] if mountable else []


def _servers(file_system_id: str, backend: Any, region: str) -> list[str]:
    name = f"{file_system_id}.efs.{region}.amazonaws.com"
    targets = [target.info_json() for target in backend.mount_targets_by_id.values()]
    return [
        server
        for target in targets
        if target["FileSystemId"] == file_system_id and target["LifeCycleState"] == "available"
        for server in (name, f"{target['AvailabilityZoneName']}.{name}", target["IpAddress"])
    ]
