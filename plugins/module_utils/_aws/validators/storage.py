# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for shared storage as a whole. Each kind of storage has its own validators in its package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from ..._common.shared_storage.mounts import check_mount_point
from ..._words import plural
from ..component import Mount, Request, Server
from ..message_parts import P
from ..network import adopted
from ..network.definition import NODES_GROUP
from ..network.security_groups import rules as security_group_rules
from ..node_group.definition import desired_workers
from ..plan.resources import UNKNOWN, Found, resolve
from ..storage import kinds, registry
from ..storage.common import find
from ..storage.efs.options import DEFAULT_MOUNT_POINT
from ..storage.efs.resources import NAME as EFS
from ..storage.registry import FILE_SYSTEM_NAMES, STORAGE_NAMES
from ..tags import NETWORK_COMPONENT, NODES_COMPONENT
from ..validator import Level, Validator

KMS_KEY = re.compile(r"(arn:[\w-]+:kms:[\w-]+:\d{12}:key/)?(mrk-)?[0-9a-fA-F-]{32,36}")
# The option that sets the directory where jobs are stored.
MOUNT_POINT = "mount_point"


class SharedStorage(Validator):
    """Checks that the jobs' directory is on the shared storage or, in a cluster without shared storage, on the master's own disk."""

    name = "shared_storage"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        mounts = registry.mounts(request, found)
        yield from _check_mount_points(mounts)
        yield from _check_directory_of_jobs(request, [mount for mount in mounts if mount.holds_jobs])
        yield from _check_nesting(mounts)


def _check_mount_points(mounts: Sequence[Mount]) -> Iterator[str]:
    """Check the mount points that the options set, except `mount_point`. Another validator checks that option."""
    for mount in mounts:
        try:
            if mount.option != MOUNT_POINT:
                check_mount_point(mount.mount_point)
        except ValueError as error:
            yield f"{P}{mount.option}: {error}."


def _check_directory_of_jobs(request: Request, shared: Sequence[Mount]) -> Iterator[str]:
    wanted = request.options[MOUNT_POINT]
    if request.manages(EFS) and not shared and wanted == DEFAULT_MOUNT_POINT:
        yield (
            f"{P}{MOUNT_POINT}: {P}efs: false leaves the cluster without shared storage, so {wanted} would be on the master's own disk. "
            f"Set {_switches()}. To keep jobs on that disk, set {P}{MOUNT_POINT} to a directory of the disk, such as /data."
        )
    if shared and wanted not in [mount.mount_point for mount in shared]:
        other = shared[0]
        yield (
            f"{P}{MOUNT_POINT}: jobs are stored in {wanted}, but nothing is mounted there. "
            f"Set {P}{MOUNT_POINT} to {other.mount_point} ({P}{other.option})."
        )


def _switches() -> str:
    """Return the settings that give a cluster shared storage, as text for messages."""
    return " or ".join(f"{P}{option}: true" for option in kinds.SWITCHES)


def _check_nesting(mounts: Sequence[Mount]) -> Iterator[str]:
    for first, second in combinations(mounts, 2):
        paths = [f"{mount.mount_point}/" for mount in (first, second)]
        if paths[0].startswith(paths[1]) or paths[1].startswith(paths[0]):
            yield (
                f"{P}{second.option}: {second.mount_point} overlaps with {first.mount_point} ({P}{first.option}). Choose another directory."
            )


class StorageOfOneNode(Validator):
    """Warns if a cluster of several nodes has no shared storage.

    Playbooks read the records of jobs on the master, so jobs without shared storage run only there.
    """

    name = "storage_of_one_node"
    level = Level.WARNING
    components = frozenset({EFS})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        workers = desired_workers(request.options)
        if workers and not any(mount.holds_jobs for mount in registry.mounts(request, found)):
            yield (
                f"{P}efs: false leaves the cluster without shared storage, so jobs run only on the master and not on the "
                f"{plural(workers, 'other node', 'other nodes')}. Set {_switches()}, or {P}worker_count: 0."
            )


class StorageKey(Validator):
    name = "storage_key"
    components = FILE_SYSTEM_NAMES

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        key = request.options["kms_key_id"]
        if key and not KMS_KEY.fullmatch(key):
            yield (
                f"{P}kms_key_id: '{key}' is not the ID or ARN of a KMS key. Specify an ID or ARN, because an alias can move to another key."
            )


class StoragePorts(Validator):
    """Checks that adopted storage servers allow traffic from the nodes. Skips resources that do not exist yet, such as security groups."""

    name = "storage_ports"
    components = FILE_SYSTEM_NAMES

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        nodes, cidrs = find(found, NODES_GROUP), _private_cidrs(found)
        servers = [server for mount in registry.mounts(request, found) for server in mount.servers]
        for server in servers if cidrs else ():
            if not adopted.lets_in(_incoming(request, server), server.ports, {nodes.id} if nodes else (), cidrs):
                groups = " or ".join(sorted(server.found.properties["security_groups"]))
                sources = f"{nodes.id if nodes else 'the nodes'} or from {', '.join(cidrs)}"
                yield (
                    f"{P}{server.option}: {server.found.id} does not allow inbound traffic from the nodes on TCP port {server.ports[1]}. "
                    f"Allow this traffic in {groups} from {sources}."
                )


def _private_cidrs(found: Sequence[Found]) -> list[str]:
    subnets = [item for item in found if item.address.kind == "subnet" and item.address.key.startswith("private-")]
    return [item.properties["cidr"] for item in subnets if item.properties["cidr"]]


def _incoming(request: Request, server: Server) -> list[tuple[str, int, int, str]]:
    described = adopted.groups(request.cloud, sorted(server.found.properties["security_groups"]))
    return [rule for group in described for rule in security_group_rules(group["IpPermissions"])]


class StorageKept(Validator):
    """Checks that running nodes keep the storage that they mounted when they were launched."""

    name = "storage_kept"
    components = STORAGE_NAMES | {NETWORK_COMPONENT, NODES_COMPONENT}

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not any(item.attributes["instances"] for item in found if item.address.kind == "nodes"):
            return
        launched: Mapping[str, str] = next((item.properties["tags"] for item in found if item.address.kind == "auto_scaling_group"), {})
        described = _described_tags(request, found)
        for tag in kinds.TAGS:
            before, after = launched.get(tag.key), described.get(tag.key)
            if tag.kept and before and tag.variable in request.options and after not in (before, UNKNOWN):
                yield (
                    f"{P}{tag.variable}: running nodes have {before} mounted, so this option cannot be changed to {after or 'none'}. "
                    "Delete the cluster (the data is kept) and create it again."
                )


def _described_tags(request: Request, found: Sequence[Found]) -> dict[str, str]:
    known = {item.address: item for item in found}
    tags: dict[str, str] = resolve({tag: value for mount in registry.mounts(request, found) for tag, value in mount.tags.items()}, known)
    return tags


VALIDATORS = (SharedStorage(), StorageOfOneNode(), StorageKey(), StoragePorts(), StorageKept())
