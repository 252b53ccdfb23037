# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""DeepSpeed: one process per GPU, with the arguments and variables of DeepSpeed's own launcher, but without ssh."""

from __future__ import annotations

from typing import Sequence

from .base import Host, Launcher, LaunchError, Process, Program
from .gpu_shares import equal_slots, gpu_environment, slots
from .ports import port


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return the processes for all hosts.

    Raises LaunchError if hosts would get different numbers of processes, or if GPUs would be idle.
    """
    count = equal_slots(program, hosts)
    for host in hosts:
        if any(len(gpus) > 1 for gpus in slots(program, host)):
            raise LaunchError(
                f"{count} processes would leave GPUs of {host.name} idle, because a deepspeed process uses one GPU. "
                f"Select {count} GPUs with gpus, or set processes_per_host to 0 to use all GPUs."
            )
    return [
        Process(
            host=host.name,
            rank=index * count + local_rank,
            argv=[
                *(program.command or (program.python, program.script)),
                *([f"--local_rank={local_rank}"] if program.options["local_rank"] else []),
                *program.arguments,
            ],
            environment={
                "RANK": str(index * count + local_rank),
                "LOCAL_RANK": str(local_rank),
                "WORLD_SIZE": str(len(hosts) * count),
                "LOCAL_SIZE": str(count),
                "CROSS_RANK": str(index),
                "CROSS_SIZE": str(len(hosts)),
                "MASTER_ADDR": hosts[0].name,
                "MASTER_PORT": str(port(program.run)),
                **({"OMP_NUM_THREADS": "1"} if count > 1 else {}),
                "GLOO_SOCKET_IFNAME": host.interface,
                "NCCL_SOCKET_IFNAME": "=" + host.interface,
                "DS_ACCELERATOR": "cuda" if host.gpus else "cpu",
                # Each process sees all GPUs of its host, and uses the one whose index is its local rank.
                **gpu_environment(host.gpus),
            },
        )
        for index, host in enumerate(hosts)
        for local_rank in range(count)
    ]


LAUNCHER = Launcher(plan, options={"local_rank": {"type": "bool", "default": True}})
