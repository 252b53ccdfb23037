# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Horovod: an Open MPI job with performance settings for Horovod."""

from __future__ import annotations

from typing import Sequence

from . import mpi
from .base import Host, Launcher, Process, Program


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return the processes of an MPI job, with settings for Horovod and NCCL in their environment. Raises LaunchError."""
    settings = {
        "HOROVOD_CYCLE_TIME": str(program.options["cycle_time"]),
        "HOROVOD_FUSION_THRESHOLD": str(program.options["fusion_threshold"]),
        # MPI transfers only Horovod's small messages, for which TCP is fast enough. NCCL transfers gradients on GPUs.
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "^openib",
        # With this setting, the log shows which network NCCL uses.
        "NCCL_DEBUG": "INFO",
    }
    return [process._replace(environment={**settings, **process.environment}) for process in mpi.plan(program, hosts)]


LAUNCHER = Launcher(
    plan,
    options={
        **mpi.OPTIONS,
        # `cycle_time` is in milliseconds, and `fusion_threshold` in bytes.
        "cycle_time": {"type": "float", "default": 0.5},
        "fusion_threshold": {"type": "int", "default": 64 * 1024 * 1024},
    },
    tag=mpi.TAG,
    culprit=mpi.culprit,
)
