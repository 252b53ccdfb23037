# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The fast network between hosts: what makes a job use it or fail, and whether a host has what it needs for that."""

from __future__ import annotations

import glob
import os
from typing import Callable, List, Sequence, Tuple

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError

Run = Callable[[List[str]], Tuple[int, str, str]]
"""Runs a command and returns its exit status, output and errors, such as AnsibleModule.run_command."""

# Names that rdma-core gives to the adapters, old and new
DEVICES = ("efa_*", "rdmap*")
SYSFS = "/sys/class/infiniband"
# Where the EFA installer puts it; login shells alone have it in PATH
FI_INFO = "/opt/amazon/efa/bin/fi_info"


def fabric_environment(hosts: Sequence[Host]) -> dict[str, str]:
    """Return the environment that makes falling back to TCP an error, for hosts with EFA; nothing for a host alone or without it.

    Raises LaunchError when only some of the hosts have EFA.
    """
    with_efa = [host.name for host in hosts if host.efa]
    if not with_efa:
        return {}
    without = [host.name for host in hosts if not host.efa]
    if without:
        raise LaunchError(
            "{} and not {} of the job's hosts have EFA, so that all would communicate over TCP. "
            "Replace the nodes without it (replace_nodes), or leave them out.".format(", ".join(with_efa), ", ".join(without))
        )
    if len(hosts) == 1:
        return {}
    # A provider or a network that is named and cannot be used ends the process; only unnamed ones have substitutes. All versions of
    # the aws-ofi-nccl plugin answer to this name of theirs. They set the rest (fork safety, topology, GPUDirect) for the type themselves.
    return {"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric"}


def missing_for_efa(run: Run, sysfs: str = SYSFS, fi_info: str = FI_INFO) -> str:
    """Return what this host lacks to use the EFA that its instance has, and what to do about it; an empty text if nothing."""
    if not any(glob.glob(os.path.join(sysfs, pattern)) for pattern in DEVICES):
        return f"there is no EFA device in {sysfs}: the image lacks the EFA driver (use a deep learning AMI), or the driver is not loaded"
    if os.access(fi_info, os.X_OK):
        status, output, error = run([fi_info, "-p", "efa"])
        if status:
            return "libfabric finds no EFA provider ({} -p efa: {})".format(fi_info, (error or output).strip() or f"exit status {status}")
    return ""
