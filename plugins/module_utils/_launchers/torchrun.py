# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""PyTorch: one torchrun agent on each host, which starts that host's workers."""

from __future__ import annotations

from typing import Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import (
    Host,
    Launcher,
    Process,
    Program,
    equal_slots,
    gpu_environment,
    port,
)


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return one agent per host, with static rendezvous at the first host. Raises LaunchError for unequal hosts."""
    workers = equal_slots(program, hosts)
    training = [program.script, *program.arguments] if not program.command else ["--no-python", *program.argv]
    return [
        Process(
            host=host.name,
            rank=index,
            argv=[
                program.python,
                "-m",
                "torch.distributed.run",
                f"--nnodes={len(hosts)}",
                f"--node-rank={index}",
                f"--nproc-per-node={workers}",
                f"--master-addr={hosts[0].name}",
                f"--master-port={port(program.job)}",
                *training,
            ],
            environment={
                # What torchrun itself would choose, without its warning: several workers share the cores, a single one has them all.
                **({"OMP_NUM_THREADS": "1"} if workers > 1 else {}),
                # The interface of the cluster's address, never a bridge that has the same address on every host.
                "GLOO_SOCKET_IFNAME": host.interface,
                "NCCL_SOCKET_IFNAME": "=" + host.interface,
                **gpu_environment(host.gpus),
            },
        )
        for index, host in enumerate(hosts)
    ]


LAUNCHER = Launcher(plan)
