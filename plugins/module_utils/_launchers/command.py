# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Any program: the same command runs on every host, or only on the first. The program itself handles the communication between hosts."""

from __future__ import annotations

from typing import Sequence

from .base import Host, Launcher, Process, Program
from .gpu_shares import gpu_environment, slots
from .ports import port


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return one process per host, or `processes_per_host` processes that share the GPUs of their host. Raises LaunchError."""
    chosen = hosts[:1] if program.options["hosts"] == "first" else hosts
    places = [
        (host, index, gpus)
        for host in chosen
        for index, gpus in enumerate(slots(program, host) if program.processes_per_host else [host.gpus])
    ]
    return [
        Process(
            host=host.name,
            rank=rank,
            argv=program.argv,
            environment={
                "DEEPLEARNING_RANK": str(rank),
                "DEEPLEARNING_LOCAL_RANK": str(index),
                "DEEPLEARNING_WORLD_SIZE": str(len(places)),
                # For launchers of frameworks, such as `accelerate launch` and `torchrun`.
                "MASTER_ADDR": hosts[0].name,
                "MASTER_PORT": str(port(program.run)),
                **gpu_environment(gpus),
            },
        )
        for rank, (host, index, gpus) in enumerate(places)
    ]


LAUNCHER = Launcher(plan, options={"hosts": {"type": "str", "choices": ["all", "first"], "default": "all"}})
