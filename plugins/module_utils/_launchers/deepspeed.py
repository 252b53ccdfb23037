# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""DeepSpeed: its own launcher for one host on each host, so that nothing needs to reach the others through ssh or pdsh."""

from __future__ import annotations

import base64
import json
from typing import Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import (
    Host,
    Launcher,
    LaunchError,
    Process,
    Program,
    equal_slots,
    port,
    slots,
)


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return one launcher per host, which starts a process for each GPU. Raises LaunchError for unequal hosts, and for idle GPUs."""
    count = equal_slots(program, hosts)
    devices = {host.name: _devices(program, host) for host in hosts}
    # What `deepspeed` itself passes on. It could name numbers of slots only, always the first GPUs of a host.
    world = base64.urlsafe_b64encode(json.dumps(devices).encode()).decode()
    return [
        Process(
            host=host.name,
            rank=index,
            argv=[
                program.python,
                "-m",
                "deepspeed.launcher.launch",
                f"--world_info={world}",
                f"--node_rank={index}",
                f"--master_addr={hosts[0].name}",
                f"--master_port={port(program.job)}",
                *([] if program.options["local_rank"] else ["--no_local_rank"]),
                *(["--no_python", *program.argv] if program.command else [program.script, *program.arguments]),
            ],
            environment={
                **({"OMP_NUM_THREADS": "1"} if count > 1 else {}),
                "DS_ACCELERATOR": "cuda" if host.gpus else "cpu",
                "GLOO_SOCKET_IFNAME": host.interface,
                "NCCL_SOCKET_IFNAME": "=" + host.interface,
                # The launcher shows each process the host's GPUs by these numbers.
                **({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if host.gpus else {}),
            },
            name=f"agent{index}" if count > 1 else "",
            ranks=range(index * count, (index + 1) * count),
        )
        for index, host in enumerate(hosts)
    ]


def _devices(program: Program, host: Host) -> list[int]:
    """Return the numbers of the devices of the host's processes: its GPUs, or just numbers where there is none."""
    shares = slots(program, host)
    if any(len(gpus) > 1 for gpus in shares):
        raise LaunchError(
            f"{len(shares)} processes would leave GPUs of {host.name} idle, because each has one with deepspeed: "
            "name the GPUs (gpus), or leave the number of processes per host at 0"
        )
    return [gpus[0] if gpus else index for index, gpus in enumerate(shares)]


LAUNCHER = Launcher(plan, options={"local_rank": {"type": "bool", "default": True}})
