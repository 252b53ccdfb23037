# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""MXNet with parameter servers: workers train, servers store the parameters, and a scheduler on the first host connects them."""

from __future__ import annotations

import itertools
from typing import Mapping, Sequence, Tuple

from .._job.naming import SERVICE, WORKER
from .base import Host, Launcher, LaunchError, Process, Program
from .gpu_shares import gpu_environment, slots
from .ports import port

# The host of a process, and the variables that give GPUs to the process.
Place = Tuple[Host, Mapping[str, str]]
NO_GPUS = {"CUDA_VISIBLE_DEVICES": ""}


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return the workers, the servers and the scheduler. Raises LaunchError if an option is negative, or if there are too many workers."""
    free = [[(host, gpu_environment(gpus)) for gpus in slots(program, host)] for host in hosts]
    workers = program.options["workers"] or sum(map(len, free))
    servers = program.options["servers"] or workers
    if min(workers, servers) < 0:
        raise LaunchError(f"workers is {workers} and servers is {servers}. Neither can be negative. Use 0 for the default.")
    used = _in_turns(free, servers)[:workers]
    if len(used) < workers:
        raise LaunchError(f"workers is {workers}, but the hosts can run only {len(used)}. Reduce workers, or increase processes_per_host.")
    places: dict[tuple[str, str], list[Place]] = {
        ("worker", WORKER): used,
        ("server", SERVICE): [(hosts[index % len(hosts)], NO_GPUS) for index in range(servers)],
        ("scheduler", SERVICE): [(hosts[0], NO_GPUS)],
    }
    shared = {
        "DMLC_PS_ROOT_URI": hosts[0].address,
        "DMLC_PS_ROOT_PORT": str(port(program.run)),
        "DMLC_NUM_WORKER": str(workers),
        "DMLC_NUM_SERVER": str(servers),
    }
    members = [(*task, index, *place) for task, same in places.items() for index, place in enumerate(same)]
    return [
        Process(
            host=host.name,
            rank=rank,
            argv=program.abrupt_argv,
            environment={
                **shared,
                "DMLC_ROLE": role,
                "DMLC_NODE_HOST": host.address,
                "DMLC_INTERFACE": host.interface,
                **gpus,
            },
            name=role if role == "scheduler" else f"{role}{index}",
            part=part,
            task=role,
        )
        for rank, (role, part, index, host, gpus) in enumerate(members)
    ]


def _in_turns(free: Sequence[Sequence[Place]], first: int) -> list[Place]:
    """Assign workers to hosts in round-robin order, and return the place of each worker.

    As with MXNet's own launcher, the first worker is on the host after the last server's host.
    """
    start = first % len(free)
    turns = itertools.zip_longest(*free[start:], *free[:start])
    return [place for turn in turns for place in turn if place]


LAUNCHER = Launcher(
    plan,
    options={"workers": {"type": "int", "default": 0}, "servers": {"type": "int", "default": 0}},
    tasks=lambda _options: ("worker", "server", "scheduler"),
)
