# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""JAX: equal processes, one for each GPU, that find each other at a coordinator in the first of them."""

from __future__ import annotations

from typing import Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import (
    Host,
    Launcher,
    Process,
    Program,
    gpu_environment,
    port,
    slots,
)


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return the processes of all hosts. Raises LaunchError for GPUs that cannot be shared equally."""
    places = [(host, index, gpus) for host in hosts for index, gpus in enumerate(slots(program, host))]
    coordinator = f"{hosts[0].address}:{port(program.job)}"
    return [
        Process(
            host=host.name,
            rank=rank,
            argv=program.abrupt_argv,
            environment={
                "JAX_COORDINATOR_ADDRESS": coordinator,
                "JAX_NUM_PROCESSES": str(len(places)),
                "JAX_PROCESS_ID": str(rank),
                # Of these three JAX itself reads the first only. Where Open MPI has started a process it takes the rest from what
                # Open MPI says, so that jax.distributed.initialize() needs no arguments; the address is then not looked at.
                "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{coordinator}",
                "OMPI_COMM_WORLD_SIZE": str(len(places)),
                "OMPI_COMM_WORLD_RANK": str(rank),
                "OMPI_COMM_WORLD_LOCAL_RANK": str(index),
                **_devices(host, gpus),
            },
        )
        for rank, (host, index, gpus) in enumerate(places)
    ]


def _devices(host: Host, gpus: Sequence[int]) -> dict[str, str]:
    """Return what shows a process its GPUs and how they reach those of other hosts; without GPUs, how CPUs do."""
    if not gpus:
        # The default of newer versions; older ones have none.
        return {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    return {
        "NCCL_SOCKET_IFNAME": "=" + host.interface,
        # All that it sees, and not, as under Open MPI, the one with the number of the process on its host.
        "JAX_LOCAL_DEVICE_IDS": ",".join(str(index) for index in range(len(gpus))),
        **gpu_environment(gpus),
    }


LAUNCHER = Launcher(plan)
