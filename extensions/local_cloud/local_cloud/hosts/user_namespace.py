"""Hosts in a user namespace: root of a host is a user of this machine who owns nothing but the hosts' files.

All hosts have the same range of ids, because they share file systems.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from .podman import TIMEOUT, as_root

ROOT = 0x40000000
"""What root of a host is on this machine. systemd keeps these numbers free for containers: https://systemd.io/UIDS-GIDS"""
COUNT = 0x10000
OPTIONS = (f"--uidmap=0:{ROOT}:{COUNT}", f"--gidmap=0:{ROOT}:{COUNT}")
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
HIERARCHY = Path("/sys/fs/cgroup/systemd")


def delegates_by_itself() -> bool:
    """Whether the container engine gives a host its control group: only in version 2 of control groups."""
    return UNIFIED.exists()


def delegate_control_group(pid: int) -> None:
    """Let the host whose first process this is have the control group it is in, in which its systemd keeps units."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    group = next((line.partition("name=systemd:")[2] for line in lines if "name=systemd:" in line), "/")
    if group.strip("/"):
        command = as_root("chown", "--recursive", f"{ROOT}:{ROOT}", f"{HIERARCHY}{group}")
        subprocess.run(command, check=True, timeout=TIMEOUT)
