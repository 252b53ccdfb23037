"""User namespaces of hosts: root of a host is a user of this machine who owns only files of hosts.

All hosts have the same range of user ids, because they share file systems.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from .podman import TIMEOUT, as_root

ROOT = 0x40000000
"""The user id of a host's root on this machine. systemd reserves this range for containers: https://systemd.io/UIDS-GIDS"""
COUNT = 0x10000
OPTIONS = (f"--uidmap=0:{ROOT}:{COUNT}", f"--gidmap=0:{ROOT}:{COUNT}")
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
HIERARCHY = Path("/sys/fs/cgroup/systemd")


def delegates_by_itself() -> bool:
    """Return whether the container engine delegates the control group to the host. It does so with version 2 of control groups."""
    return UNIFIED.exists()


def delegate_control_group(pid: int) -> None:
    """Make root of a host the owner of the host's control group, where systemd manages units. `pid` is the host's first process."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    group = next((line.partition("name=systemd:")[2] for line in lines if "name=systemd:" in line), "/")
    if group.strip("/"):
        command = as_root("chown", "--recursive", f"{ROOT}:{ROOT}", f"{HIERARCHY}{group}")
        subprocess.run(command, check=True, timeout=TIMEOUT)
