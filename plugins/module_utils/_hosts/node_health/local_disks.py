# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks the disks of the host: free space, free inodes, and whether the root file system is writable."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple, Sequence

from ..._common.node_health.check import REBOOT, RESTART, CheckedNode, Problem
from ..._common.shared_storage.mount_table import mounted_at

GIB = 1 << 30
# A disk must have this many free bytes. On a small disk, such as a tmpfs, a fraction of its size is sufficient.
FREE_BYTES, FREE_SHARE, FREE_FILES_SHARE = GIB, 0.05, 0.01


class Disk(NamedTuple):
    """A file system: a directory on it, its size and free space in bytes, the maximum number of files, and how many files can still be
    created.
    """

    path: str
    size: int
    free: int
    files: int
    free_files: int


def read_disks(node: CheckedNode) -> list[Disk]:
    """Return the file systems that contain the node's directories.

    Each file system is returned only once. The free space excludes blocks that are reserved for root.
    """
    found: dict[int, Disk] = {}
    for path in node.disks:
        with contextlib.suppress(FileNotFoundError):
            status, device = os.statvfs(path), os.stat(path).st_dev
            size = status.f_frsize
            found.setdefault(device, Disk(path, status.f_blocks * size, status.f_bavail * size, status.f_files, status.f_favail))
    return list(found.values())


def decide_disks(disks: Sequence[Disk], _node: CheckedNode) -> list[Problem]:
    """Return a problem for each file system that is almost full. A file system without a limit on files reports 0 files."""
    problems = []
    for disk in disks:
        if disk.free < min(FREE_BYTES, disk.size * FREE_SHARE):
            problems.append((RESTART, f"{disk.path}: {disk.free >> 20} of {disk.size >> 20} MiB are free. Delete files."))
        if disk.free_files < disk.files * FREE_FILES_SHARE:
            problems.append((RESTART, f"{disk.path}: {disk.free_files} of {disk.files} inodes are free. Delete files."))
    return problems


def read_mount_table(_node: CheckedNode) -> str:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        return file.read()


def decide_root(mountinfo: str, _node: CheckedNode) -> list[Problem]:
    """Return a problem if the root file system is read-only. After a disk error, the kernel remounts it read-only."""
    found = mounted_at(mountinfo, "/")
    is_read_only = found is not None and "ro" in found.options.split(",")
    return (
        [(REBOOT, "/: is mounted read-only, usually because of a disk error. To find out why, read the kernel log.")]
        if is_read_only
        else []
    )
