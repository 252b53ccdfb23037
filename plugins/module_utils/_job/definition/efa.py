# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns environment variables that make a job fail if it cannot use the Elastic Fabric Adapters (EFA) of its hosts."""

from __future__ import annotations

from typing import Sequence

from ..._launchers.base import Host, LaunchError


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
            "Replace the nodes without EFA (replace_nodes), or run the job without these nodes.".format(
                ", ".join(with_efa), ", ".join(without)
            )
        )
    if len(hosts) == 1:
        return {}
    # If the specified provider or network cannot be used, the process fails. Without these variables, the process would fall back to TCP.
    # All versions of the aws-ofi-nccl plugin use this network name, and configure fork safety, topology and GPUDirect for the instance
    # type.
    return {"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric"}
