# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Host files for mpirun and deepspeed, and the command that replaces ssh for them."""

from __future__ import annotations

from typing import Sequence

from .._job.directories import runtime_directory
from .base import Host, Program
from .gpu_shares import slots


def hostfile(program: Program, hosts: Sequence[Host]) -> str:
    """Return the contents of a host file for mpirun and deepspeed. Each line contains a host and its number of slots."""
    return "".join(f"{host.name} slots={len(slots(program, host))}\n" for host in hosts)


def hostfile_path(job: str, process: str) -> str:
    return runtime_directory(job, process) + "/hostfile"


def remote_shell(job: str, process: str) -> str:
    """Return the command that a process uses instead of ssh to run commands on hosts whose processes have no `argv`."""
    return f"sh {runtime_directory(job, process)}/supervisor rsh"
