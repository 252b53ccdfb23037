# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a launcher is: a pure function from a job and its hosts to the processes that are the job."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Sequence


class Host(NamedTuple):
    """A host as a launcher sees it. C(name) is what the hosts call each other, C(interface) carries C(address).

    C(efa) tells whether it has Elastic Fabric Adapters.
    """

    name: str
    address: str
    number: int
    gpu_count: int
    interface: str
    efa: bool = False


class Program(NamedTuple):
    """What is to be run. C(processes_per_host) 0 means: one for each GPU, or one where there is none."""

    job: str
    python: str
    script: str
    arguments: Sequence[str] = ()
    processes_per_host: int = 0


class Process(NamedTuple):
    """One process that is started on one host; C(rank) is its index in the job."""

    host: str
    rank: int
    argv: list[str]
    environment: dict[str, str]


class LaunchError(ValueError):
    """These hosts cannot run this job; the text says why and what to do."""


Launcher = Callable[[Program, Sequence[Host]], List[Process]]


def equal_gpu_count(hosts: Sequence[Host]) -> int:
    """Return the number of GPUs that every host has. Raises LaunchError when the hosts differ."""
    counts = {host.gpu_count for host in hosts}
    if len(counts) > 1:
        listing = ", ".join(f"{host.name} has {host.gpu_count}" for host in hosts)
        raise LaunchError(
            f"the hosts have different numbers of GPUs ({listing}); run the job on equal hosts or set the number of processes per host"
        )
    return counts.pop()
