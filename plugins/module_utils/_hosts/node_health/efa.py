# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks whether a host can use its Elastic Fabric Adapters (EFA)."""

from __future__ import annotations

import glob
import os
import subprocess

from ..._common.node_health.check import REPLACE, RESTART, CheckedNode, Problem
from ..transient_units import RunCommand

# Patterns for the names of adapters in old and new versions of rdma-core.
DEVICES = ("efa_*", "rdmap*")
SYSFS = "/sys/class/infiniband"
# The path of fi_info, which the EFA installer provides. Only login shells have its directory in PATH.
FI_INFO = "/opt/amazon/efa/bin/fi_info"


def missing_for_efa(run: RunCommand, sysfs: str = SYSFS, fi_info: str = FI_INFO) -> str:
    """Return why this host cannot use EFA and what to do, or an empty string if it can use EFA."""
    if not devices(sysfs):
        return f"there is no EFA device in {sysfs}: the image lacks the EFA driver (use a Deep Learning AMI), or the driver is not loaded"
    if os.access(fi_info, os.X_OK):
        status, output, error = run([fi_info, "-p", "efa"])
        if status:
            return "libfabric finds no EFA provider ({} -p efa: {})".format(fi_info, (error or output).strip() or f"exit status {status}")
    return ""


def devices(sysfs: str = SYSFS) -> list[str]:
    return sorted(path for pattern in DEVICES for path in glob.glob(os.path.join(sysfs, pattern)))


def read(node: CheckedNode) -> tuple[int, str]:
    """Return the number of adapters in this host and, if the host cannot use the adapters, the reason."""
    return (len(devices()), missing_for_efa(_run)) if node.efa_devices else (0, "")


def _run(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def decide(found: tuple[int, str], node: CheckedNode) -> list[Problem]:
    count, missing = found
    if missing:
        return [(RESTART, f"EFA: {missing}.")]
    if count < node.efa_devices:
        return [(REPLACE, f"EFA: the host has {count} adapters, but {node.efa_devices} are attached to the instance.")]
    return []
