"""FUSE on hosts: the device through which programs mount file systems."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

from .podman import TIMEOUT, Podman, as_root

DEVICE = Path("/dev/fuse")
NUMBER = ("10", "229")
# A separate device, which replaces the machine's device when a host boots.
OWN_DEVICE = "/srv/local-cloud/fuse"
PROBE = f"if [ -c {OWN_DEVICE} ]; then mount --bind {OWN_DEVICE} {DEVICE}; fi; test -c {DEVICE}; exec 3<>{DEVICE}"


def options(folder: Path) -> list[str]:
    """Return the `podman create` options for a host with FUSE. If the host needs a separate device, create it in `folder`.

    The machine's device might be accessible only to root. In a user namespace, root on a host is a different user on the machine and needs
    a separate device.
    """
    shared = stat.S_IMODE(DEVICE.stat().st_mode) & 0o006 == 0o006
    return [f"--device={DEVICE}", *([] if shared else [f"--volume={_own_device(folder)}:{OWN_DEVICE}"])]


def works(podman: Podman, image: str, folder: Path, host_options: list[str]) -> bool:
    """Return whether hosts with these options can open the device.

    A machine might not have the device, or might not allow containers to use the device.
    """
    if not DEVICE.is_char_device():
        return False
    try:
        wanted = options(folder)
    except subprocess.CalledProcessError:
        return False
    return podman.succeeds("run", "--rm", "--network=none", "--cap-add=SYS_ADMIN", *host_options, *wanted, image, "sh", "-ec", PROBE)


def _own_device(folder: Path) -> Path:
    path = folder / "fuse"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(as_root("mknod", "--mode=666", str(path), "c", *NUMBER), check=True, timeout=TIMEOUT, capture_output=True)
    return path
