# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Counts the processes that the kernel's OOM killer has killed."""

from __future__ import annotations

import os
from typing import NamedTuple


def oom_kills(cgroups: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> int | None:
    """Return how many processes in this unit the kernel's OOM killer has killed, or None if the kernel does not count them.

    Sources: `memory.events` in the kernel's documentation of cgroup v2, and `memory.oom_control` in that of cgroup v1. With cgroup v1, the
    count is for this unit only if the unit's group in the hierarchy of the memory controller is the same as in systemd's own hierarchy.
    """
    try:
        with open(cgroups, encoding="utf-8") as file:
            groups: dict[str, str] = dict(line.rstrip("\n").split(":", 2)[1:] for line in file)
        memory = next((groups[names] for names in groups if "memory" in names.split(",")), None)
        if memory is not None and memory != groups["name=systemd"]:
            return None
        folder, name = ("", "memory.events") if memory is None else ("memory", "memory.oom_control")
        with open(os.path.join(root, folder, (memory or groups[""]).lstrip("/"), name), encoding="ascii") as file:
            return int(dict(line.split() for line in file)["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None


def machine_oom_kills(path: str = "/proc/vmstat") -> int | None:
    """Return how many processes on this host the kernel's OOM killer has killed, or None if the kernel does not count them."""
    try:
        with open(path, encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


class OomKills(NamedTuple):
    """The numbers of processes that the kernel's OOM killer has killed, in this unit and on this host.

    None means that a number is unknown.
    """

    unit: int | None
    machine: int | None


def count_oom_kills() -> OomKills:
    return OomKills(oom_kills(), machine_oom_kills())


def oom_kills_since(before: OomKills) -> int | None:
    """Return how many processes in this unit the OOM killer has killed since an earlier count, or None if that is unknown.

    If the kernel counts only for the whole host, the number is known only if it is 0.
    """
    now = count_oom_kills()
    if now.unit is not None and before.unit is not None:
        return now.unit - before.unit
    return 0 if now.machine is not None and now.machine == before.machine else None
