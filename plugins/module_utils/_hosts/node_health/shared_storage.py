# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks the shared storage: each node writes and reads a file, and then reads the file of another node."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from ..._common.node_health.check import CONFIGURE, MONITOR, RESTART, CheckedNode, Problem
from ..._common.shared_storage.fstab import fstab_fields, is_own_entry
from ..._common.shared_storage.mounts import DEAD, is_shared

FSTAB = "/etc/fstab"
# With this option, an entry with `noauto` is mounted when a program opens its mount point.
AUTOMOUNT = "x-systemd.automount"


class MountedStorage(NamedTuple):
    """The mount point of shared storage. `is_foreign` is true if the cluster does not use the storage."""

    path: str
    read_only: bool = False
    is_foreign: bool = False


def places(fstab: str) -> list[MountedStorage]:
    """Return the shared storage in the text of /etc/fstab, except entries that are only mounted by hand."""
    found = []
    for fields in map(fstab_fields, fstab.splitlines()):
        options = fields[3].split(",") if len(fields) > 3 else []
        if options and is_shared(fields[2]) and ("noauto" not in options or AUTOMOUNT in options):
            found.append(MountedStorage(fields[1], "ro" in options, not is_own_entry(fields[3])))
    return found


def read_places() -> list[MountedStorage]:
    with contextlib.suppress(FileNotFoundError), open(FSTAB, encoding="utf-8", errors="replace") as file:
        return places(file.read())
    return []


def file_of(place: MountedStorage, token: str, number: int) -> str:
    return os.path.join(place.path, f".deeplearning-health-{token}-{number}")


def write(place: MountedStorage, node: CheckedNode) -> str:
    """Write a file and read it. Return a description of the problem, or an empty string. The caller must not be root."""
    try:
        if not is_mounted(place.path):
            advice = "Mount it, or add noauto to its line in /etc/fstab." if place.is_foreign else CONFIGURE
            return f"nothing is mounted. {advice}"
        if place.read_only or place.is_foreign:
            with os.scandir(place.path) as entries:
                next(entries, None)
            return ""
        return _write(file_of(place, node.token or os.urandom(8).hex(), node.number), node)
    except OSError as error:
        if error.errno not in DEAD:
            return f"{error.strerror}. Check the storage and its security groups."
        return f"{error.strerror}. {'Unmount it with umount --lazy, and mount it again.' if place.is_foreign else CONFIGURE}"


def is_mounted(path: str) -> bool:
    """Return whether something is mounted at a path. Raises OSError for a mount that has become stale."""
    with contextlib.suppress(FileNotFoundError):
        os.lstat(path)
    return os.path.ismount(path)


def _write(path: str, node: CheckedNode) -> str:
    content = f"{node.number}\n"
    try:
        # An existing file is an error, because another user may have created it.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w", encoding="ascii") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        found = _read(path)
    except OSError:
        _remove(path)
        raise
    if not node.token:
        _remove(path)
    return "" if found == content else "a file had different contents when it was read just after it had been written. Check the storage."


def read_of_peer(place: MountedStorage, node: CheckedNode) -> str:
    """Read and remove the file of another node. Return a description of the problem, or an empty string. The caller must not be root."""
    if place.read_only or place.is_foreign:
        return ""
    path = file_of(place, node.token, node.peer)
    try:
        found = _read(path)
    except OSError as error:
        return f"cannot read the file that worker {node.peer} has written: {error.strerror}. The nodes may have mounted different storage."
    finally:
        _remove(path)
    return (
        ""
        if found == f"{node.peer}\n"
        else f"the file that worker {node.peer} wrote has different contents on this node. Check the storage."
    )


def _read(path: str) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="ascii", errors="replace") as file:
        return file.read(100)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def ask(place: MountedStorage, _node: CheckedNode) -> None:
    """Make the storage answer a request. Only the time matters, because other checks report errors.

    An NFS client answers from its cache whether a file exists, but not how much space is free.
    """
    with contextlib.suppress(OSError):
        os.statvfs(place.path)


def decide_hang(_place: MountedStorage, _answer: None, _node: CheckedNode) -> list[Problem]:
    """Return no problem, because the storage has answered in time."""
    return []


def decide(place: MountedStorage, problem: str, _node: CheckedNode) -> list[Problem]:
    return [(severity_of(place), f"{place.path}: {problem}")] if problem else []


def severity_of(place: MountedStorage) -> str:
    """Return the severity of problems with this storage. Jobs do not need storage that the cluster does not use."""
    return MONITOR if place.is_foreign else RESTART
