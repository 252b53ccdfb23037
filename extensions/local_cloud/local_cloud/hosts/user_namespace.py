"""User namespaces of hosts: root on a host is a user of this machine who owns only the files of hosts.

All hosts have the same range of user IDs, because hosts share file systems.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from .podman import TIMEOUT, as_root

# The user ID of a host's root on this machine. systemd reserves this range for containers: https://systemd.io/UIDS-GIDS
ROOT = 0x40000000
COUNT = 0x10000
OPTIONS = (f"--uidmap=0:{ROOT}:{COUNT}", f"--gidmap=0:{ROOT}:{COUNT}")
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
HIERARCHY = Path("/sys/fs/cgroup/systemd")
NETWORK_NAMESPACES = "/run/netns"


def delegates_by_itself() -> bool:
    """Return whether the container engine delegates the cgroup to the host. With cgroup v2, it does."""
    return UNIFIED.exists()


def delegate_control_group(pid: int) -> None:
    """Make root on a host the owner of the host's cgroup, in which systemd manages units. `pid` is the host's first process."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    group = next((line.partition("name=systemd:")[2] for line in lines if "name=systemd:" in line), "/")
    if group.strip("/"):
        command = as_root("chown", "--recursive", f"{ROOT}:{ROOT}", f"{HIERARCHY}{group}")
        subprocess.run(command, check=True, timeout=TIMEOUT)


def share_network_namespaces() -> None:
    """Let processes in other mount namespaces see the mounts of new network namespaces, as `ip netns` does.

    podman monitors a host with a user namespace from another mount namespace, where podman frees the host's address after the host has
    stopped. Without this function, podman could not free the address on machines whose root file system is a private mount.
    """
    found = subprocess.run(
        ["findmnt", "--noheadings", "--output=PROPAGATION", "--target", NETWORK_NAMESPACES], capture_output=True, check=False
    )
    if found.returncode == 0 and b"shared" in found.stdout:
        return
    for command in (
        ("mkdir", "--parents", NETWORK_NAMESPACES),
        ("mount", "--rbind", NETWORK_NAMESPACES, NETWORK_NAMESPACES),
        ("mount", "--make-rshared", NETWORK_NAMESPACES),
    ):
        subprocess.run(as_root(*command), check=True, timeout=TIMEOUT)
