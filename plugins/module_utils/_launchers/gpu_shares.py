# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Divides the GPUs of a host among the training processes of a job."""

from __future__ import annotations

from typing import Sequence

from .base import Host, LaunchError, Program


def slots(program: Program, host: Host) -> list[Sequence[int]]:
    """Return one sequence of GPUs for each training process on the host. The sequences are empty on a host without GPUs.

    Raises LaunchError if the GPUs cannot be divided equally among the processes.
    """
    count = program.processes_per_host or len(host.gpus) or 1
    if not host.gpus:
        return [()] * count
    share, rest = divmod(len(host.gpus), count)
    if rest or not share:
        raise LaunchError(
            f"{count} processes cannot share the {len(host.gpus)} GPUs of {host.name} equally. Set processes_per_host to a divisor of"
            f" {len(host.gpus)}, or to 0 for one process per GPU."
        )
    return [host.gpus[index * share : (index + 1) * share] for index in range(count)]


def equal_slots(program: Program, hosts: Sequence[Host]) -> int:
    """Return the number of training processes per host. Raises LaunchError if this number differs between hosts."""
    counts = {host.name: len(slots(program, host)) for host in hosts}
    if len(set(counts.values())) > 1:
        listing = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise LaunchError(
            f"the hosts would have different numbers of training processes ({listing})."
            " Use hosts with the same number of GPUs, or set processes_per_host."
        )
    return counts[hosts[0].name]


def gpu_environment(gpus: Sequence[int]) -> dict[str, str]:
    """Return the variables that make only these GPUs, numbered as in nvidia-smi, visible to a process. Without GPUs, return {}."""
    if not gpus:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in gpus)}
