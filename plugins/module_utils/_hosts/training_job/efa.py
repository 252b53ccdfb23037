# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns environment variables that make jobs fail without Elastic Fabric Adapter (EFA), and checks whether a host can use EFA."""

from __future__ import annotations

import glob
import os
from typing import Callable, List, Sequence, Tuple

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError

Run = Callable[[List[str]], Tuple[int, str, str]]
"""A function, such as AnsibleModule.run_command, that runs a command and returns its exit status, output and errors."""

# Patterns of the adapters' names in old and new versions of rdma-core.
DEVICES = ("efa_*", "rdmap*")
SYSFS = "/sys/class/infiniband"
# Where the EFA installer puts fi_info. Only login shells have this directory in PATH.
FI_INFO = "/opt/amazon/efa/bin/fi_info"


def fabric_environment(hosts: Sequence[Host]) -> dict[str, str]:
    """Return the environment variables that prevent a silent fallback to TCP on hosts with EFA.

    Returns no variables if the hosts have no EFA, or if there is only one host. Raises LaunchError if only some of the hosts have EFA.
    """
    with_efa = [host.name for host in hosts if host.efa]
    if not with_efa:
        return {}
    without = [host.name for host in hosts if not host.efa]
    if without:
        raise LaunchError(
            "EFA is available on {} but not on {}, so all of the job's hosts would communicate over TCP. "
            "Replace the nodes without EFA (replace_nodes), or run the job without them.".format(", ".join(with_efa), ", ".join(without))
        )
    if len(hosts) == 1:
        return {}
    # If the specified provider or network cannot be used, the process fails. Without these variables, it would fall back to TCP. All
    # versions of the aws-ofi-nccl plugin use this network name, and configure fork safety, topology and GPUDirect for the instance type.
    return {"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric"}


def missing_for_efa(run: Run, sysfs: str = SYSFS, fi_info: str = FI_INFO) -> str:
    """Return why this host cannot use EFA and what to do about it, or an empty string if it can use EFA."""
    if not any(glob.glob(os.path.join(sysfs, pattern)) for pattern in DEVICES):
        return f"there is no EFA device in {sysfs}: the image lacks the EFA driver (use a Deep Learning AMI), or the driver is not loaded"
    if os.access(fi_info, os.X_OK):
        status, output, error = run([fi_info, "-p", "efa"])
        if status:
            return "libfabric finds no EFA provider ({} -p efa: {})".format(fi_info, (error or output).strip() or f"exit status {status}")
    return ""
