"""Faults in the shared storage: full, stalled, read-only. The shared storage of the suite's hosts is a small, separate file system."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

from local_cloud.hosts.podman import as_root
from local_cloud.testing import wait_until

CHECKPOINTS = "/checkpoints"


def on_own_disk(name):
    """Return the options of a job whose checkpoints are on a separate file system."""
    return {"environment": {"DEEPLEARNING_CHECKPOINT_DIRECTORY": f"{CHECKPOINTS}/{name}"}}


def fill(job, place, stays=False):
    """Fill a file system. Free the space when the attempt has failed or, if `stays` is true, when the job has ended."""
    job.wait_for_step()
    job.undo.callback(job.cluster.hosts[0].ssh, f"sudo rm -f {place}/fill")
    job.strike(job.cluster.hosts[0], f"dd if=/dev/zero of={place}/fill bs=64k 2>/dev/null || true")
    if stays:
        return
    # The disk might not have enough space for the verdict itself.
    wait_until(lambda: not job.cluster.hosts[0].ssh(f"pgrep -f '/jobs/{job.name}/[c]ode'", check=False).stdout)
    job.undo.close()


def stall(job, seconds):
    """Let all writes to the shared storage hang for some seconds."""
    job.wait_for_step()
    thaw = as_root("fsfreeze", "--unfreeze", job.cluster.storage)
    job.undo.callback(subprocess.run, thaw, check=True)
    job.struck(number=0)
    subprocess.run(as_root("fsfreeze", "--freeze", job.cluster.storage), check=True)
    time.sleep(seconds)  # the storage hangs during this time
    job.undo.close()


def forbid(job):
    """Remove the permission to write checkpoints until the hosts have detected the fault."""
    job.wait_for_step()
    folder = f"{job.directory}/checkpoints"
    mode = job.cluster.hosts[0].ssh(f"stat -c %a {folder}").stdout.strip()
    job.undo.callback(job.cluster.hosts[0].ssh, f"sudo chmod {mode} {folder}")
    job.strike(job.cluster.hosts[0], f"chmod a-w {folder}")
    job.wait_for_verdict()
    job.undo.close()


@contextlib.contextmanager
def small_disk(path, megabytes):
    """Mount a file system of this size at a path.

    A file beside `path` contains the file system. Yield False on a machine without loop devices.
    """
    image = path.with_name(f"{path.name}.image")
    path.mkdir(parents=True)
    subprocess.run(["truncate", f"--size={megabytes}M", str(image)], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-N", "16384", str(image)], check=True)
    has_devices = Path("/dev/loop-control").exists()
    if has_devices:
        subprocess.run(as_root("mount", "--options=loop", str(image), str(path)), check=True)
    try:
        yield has_devices
    finally:
        if has_devices:
            subprocess.run(as_root("umount", "--lazy", str(path)), check=True)
        image.unlink()
