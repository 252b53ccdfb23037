# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks for the host itself: disks, memory, host names, certificates, and the clock."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import Any, NamedTuple, Sequence

from ..shared_storage.mounts import mounted_at
from ..ssh_trust.certificates import DAY, parse_certificate
from ..ssh_trust.files import HOST_CERTIFICATE, USER_CERTIFICATE
from ..worker_metadata.metadata import alias, parse_metadata
from .check import MONITOR, REBOOT, RESTART, CheckedNode, Problem

GIB = 1 << 30
# A disk must have this many free bytes. On a small disk, such as a tmpfs, a fraction of its size is sufficient.
FREE_BYTES, FREE_SHARE, FREE_FILES_SHARE = GIB, 0.05, 0.01
AVAILABLE_MEMORY_SHARE = 0.05
# Clock differences in seconds. After a minute without a heartbeat, a process of a job counts as lost.
CLOCK_TOLERANCE, CLOCK_LIMIT = 5.0, 60.0
CONFIGURE = "Run deeplearning.cluster.configure."


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
    """Return the text of /proc/self/mountinfo."""
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


def read_memory(_node: CheckedNode) -> dict[str, int]:
    """Return the numbers in /proc/meminfo, in kibibytes, keyed by name."""
    with open("/proc/meminfo", encoding="ascii") as file:
        lines = [line.split() for line in file]
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1}


def decide_memory(memory: dict[str, int], _node: CheckedNode) -> list[Problem]:
    """Return a problem if almost no memory is available."""
    total, available = memory["MemTotal"], memory["MemAvailable"]
    if available >= total * AVAILABLE_MEMORY_SHARE:
        return []
    return [(MONITOR, f"memory: {available >> 10} of {total >> 10} MiB are available. The kernel may kill processes.")]


class Names(NamedTuple):
    """Host names, each with its expected address and the address to which it resolves. `error` says why the names are unknown."""

    resolved: list[tuple[str, str, str]]
    error: str


def read_names(node: CheckedNode) -> Names:
    """Resolve the names of the cluster's hosts. A name that does not resolve has an empty address."""
    path = os.path.join(node.metadata_directory, "metadata.json")
    try:
        with open(path, encoding="utf-8") as file:
            workers = parse_metadata(file.read())["workers"]
        expected = [(name, worker["address"]) for worker in workers for name in (worker["name"], alias(worker["number"]))]
    except OSError as error:
        return Names([], f"{path}: {error.strerror}. {CONFIGURE}")
    except (ValueError, KeyError, TypeError) as error:
        return Names([], f"{path}: {error}. {CONFIGURE}")
    return Names([(name, address, _address(name)) for name, address in dict.fromkeys(expected)], "")


def _address(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""


def decide_names(names: Names, _node: CheckedNode) -> list[Problem]:
    """Return a problem for each name that resolves to a wrong address or to no address."""
    if names.error:
        return [(RESTART, names.error)]
    return [
        (RESTART, f"{name}: resolves to {found or 'no address'}, but the host's address is {expected}. {CONFIGURE}")
        for name, expected, found in names.resolved
        if found != expected
    ]


def read_certificates(_node: CheckedNode) -> dict[str, str]:
    """Return the SSH certificates of this host, keyed by path.

    A host that does not trust a cluster's certificate authority has no certificates.
    """
    found = {}
    for path in (HOST_CERTIFICATE, USER_CERTIFICATE):
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as file:
            found[path] = file.read()
    return found


def decide_certificates(certificates: dict[str, str], _node: CheckedNode, now: float | None = None) -> list[Problem]:
    """Return a problem for each certificate that is not valid now or that expires within a day. `now` is in seconds since 1970."""
    moment, problems = time.time() if now is None else now, []
    for path, text in certificates.items():
        try:
            certificate = parse_certificate(text)
        except ValueError as error:
            problems.append((RESTART, f"{path}: {error}. {CONFIGURE}"))
            continue
        if not certificate.valid_after <= moment < certificate.valid_before:
            problems.append((RESTART, f"{path}: the certificate has expired or is not valid yet. {CONFIGURE}"))
        elif certificate.valid_before < moment + DAY:
            problems.append((MONITOR, f"{path}: the certificate expires in less than a day. {CONFIGURE}"))
    return problems


def decide_clock(times: tuple[float, float, float], _node: CheckedNode) -> list[Problem]:
    """Return a problem if a host's clock is wrong.

    `times` contains the controller's time before the module ran, the host's time while it ran, and the controller's time after it ran, in
    seconds since 1970. The clock error is the part of the time difference that the module's duration does not explain.
    """
    before, host, after = times
    difference = min(host - before, 0.0) or max(host - after, 0.0)
    if abs(difference) < CLOCK_TOLERANCE:
        return []
    words = f"{abs(difference):.0f} s {'ahead of' if difference > 0 else 'behind'} the controller's"
    return [
        (
            RESTART if abs(difference) >= CLOCK_LIMIT else MONITOR,
            f"clock: the host's clock is {words}. Check chronyd on the host, and check the controller's clock.",
        )
    ]


def read_configured_gpus(node: CheckedNode) -> int | None:
    """Return the number of GPUs that jobs use according to the worker metadata, or None if the host is not configured."""
    try:
        with open(os.path.join(node.metadata_directory, "metadata.json"), encoding="utf-8") as file:
            count: Any = json.load(file)["gpu_count"]
        return int(count)
    except (OSError, ValueError, KeyError, TypeError):
        return None
