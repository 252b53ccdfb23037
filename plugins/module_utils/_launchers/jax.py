# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""JAX: identical processes, one per GPU by default, that connect to a coordinator in the first process."""

from __future__ import annotations

from typing import Sequence

from .base import Host, Launcher, Process, Program
from .gpu_shares import gpu_environment, slots
from .ports import port


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return the processes for all hosts. Raises LaunchError if the GPUs cannot be divided equally."""
    places = [(host, index, gpus) for host in hosts for index, gpus in enumerate(slots(program, host))]
    coordinator = f"{hosts[0].address}:{port(program.run)}"
    return [
        Process(
            host=host.name,
            rank=rank,
            argv=program.abrupt_argv,
            environment={
                "JAX_COORDINATOR_ADDRESS": coordinator,
                "JAX_NUM_PROCESSES": str(len(places)),
                "JAX_PROCESS_ID": str(rank),
                # JAX itself reads only the first of the three variables above. JAX takes the other values from Open MPI's variables.
                # With these variables, jax.distributed.initialize() needs no arguments. JAX does not use the address in the URI.
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
    """Return the variables that select a process's GPUs and network interface, or CPU collectives for a process without GPUs."""
    if not gpus:
        # Newer versions of JAX use this setting by default. Older versions have no default.
        return {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    return {
        "NCCL_SOCKET_IFNAME": "=" + host.interface,
        # Use all visible GPUs. The default under Open MPI is only the GPU whose index is the local rank.
        "JAX_LOCAL_DEVICE_IDS": ",".join(str(index) for index in range(len(gpus))),
        **gpu_environment(gpus),
    }


LAUNCHER = Launcher(plan)
