# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""PyTorch: one torchrun agent on each host, which starts that host's workers."""

from __future__ import annotations

import zlib
from typing import Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, Process, Program, equal_gpu_count

# Below 32768, where Linux starts to hand out ports for outgoing connections, and above most services.
FIRST_PORT, PORT_COUNT = 20000, 12000


def torchrun(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return one agent per host, with static rendezvous at the first host. Raises LaunchError for unequal hosts."""
    workers = program.processes_per_host or max(1, equal_gpu_count(hosts))
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
                program.script,
                *program.arguments,
            ],
            environment={
                # What torchrun itself would choose, without its warning: several workers share the cores, a single one has them all.
                **({"OMP_NUM_THREADS": "1"} if workers > 1 else {}),
                # The interface of the cluster's address, never a bridge that has the same address on every host.
                "GLOO_SOCKET_IFNAME": host.interface,
                "NCCL_SOCKET_IFNAME": "=" + host.interface,
            },
        )
        for index, host in enumerate(hosts)
    ]


def port(job: str) -> int:
    """Return the rendezvous port: derived from the job's name, because two jobs on one port would join each other."""
    return FIRST_PORT + zlib.crc32(job.encode()) % PORT_COUNT
