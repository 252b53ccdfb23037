# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a launcher is: a pure function from a job and its hosts to the processes that are the job."""

from __future__ import annotations

import zlib
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import WORKER, runtime_directory

# Above most services and the TLS tunnels to EFS (20049 to 20449), below 32768, where Linux starts to hand out ports for connections.
FIRST_PORT, PORT_COUNT = 20500, 11500

# A failed process must end at once: at exit its framework would wait for others, which wait for it.
RUN_SCRIPT = """\
import os, runpy, sys
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except BaseException as error:
    exits = isinstance(error, SystemExit)
    status = error.code if exits else 1
    if not status:
        raise
    if not exits:
        sys.excepthook(*sys.exc_info())
    elif not isinstance(status, int):
        print(status, file=sys.stderr)
    sys.stdout.flush()
    os._exit(status if isinstance(status, int) else 1)
"""


class Host(NamedTuple):
    """A host as a launcher sees it. `name` is what the hosts call each other, `interface` carries `address`.

    `gpus` are the indices of the GPUs that the job may use there; `efa` tells whether it has Elastic Fabric Adapters.
    """

    name: str
    address: str
    number: int
    gpus: Sequence[int]
    interface: str
    efa: bool = False


class Program(NamedTuple):
    """What to run: a Python `script` with its `arguments`, or a `command` instead.

    `processes_per_host` 0 means: one for each GPU, or one where there is none. `options` are those of the launcher.
    """

    job: str
    python: str
    script: str
    arguments: Sequence[str] = ()
    processes_per_host: int = 0
    options: Mapping[str, Any] = {}
    command: Sequence[str] = ()

    @property
    def argv(self) -> list[str]:
        """The command line of one training process."""
        return [*(self.command or (self.python, self.script)), *self.arguments]

    @property
    def abrupt_argv(self) -> list[str]:
        """The same for frameworks that wait for all processes when one ends: it ends at once when its script fails.

        A command has to see to that itself.
        """
        return self.argv if self.command else [self.python, "-c", RUN_SCRIPT, self.script, *self.arguments]


class Process(NamedTuple):
    """One process that is started on one host.

    `rank` is its index in the job, `name` what its log, record and unit are called (lower-case letters, then digits), `rank<rank>` if
    empty. `part` is what it is to the job: the job ends with its last worker, ends services then, and goes on without lost spares.
    A process without `argv` waits for what another host of the job wants to run there, see `remote_shell`.

    `ranks` are those of the training processes that it starts, where it is not one itself. `tagged` tells whether their lines begin
    with the launcher's `tag` in its log: whoever asks for the log of one rank gets those lines.
    """

    host: str
    rank: int
    argv: list[str]
    environment: dict[str, str]
    name: str = ""
    part: str = WORKER
    ranks: Sequence[int] | None = None
    tagged: bool = False


class Culprit(NamedTuple):
    """The `rank` that failed first, its exit status (negative: the signal that ended it), and the index of the `line` that says so."""

    rank: str
    status: int
    line: int


class LaunchError(ValueError):
    """These hosts cannot run this job; the text says why and what to do."""


class Launcher(NamedTuple):
    """`plan` makes the processes, the first of which is rank 0. `options` is the argument spec of what is special to this launcher.

    `tag` is how lines begin in a log that ranks share, with the rank for `{}`. `culprit` finds in the lines of such a log, or of one
    that the launcher itself writes to, which rank was the first to fail. In a log without tags, that line and all that follow are the
    launcher's own words.
    """

    plan: Callable[[Program, Sequence[Host]], list[Process]]
    options: Mapping[str, Mapping[str, Any]] = {}
    tag: str = ""
    culprit: Callable[[Sequence[str]], Culprit | None] | None = None


def slots(program: Program, host: Host) -> list[Sequence[int]]:
    """Return the GPUs of each training process of the host, none for a process without.

    Raises LaunchError when so many processes cannot have equal shares of the GPUs.
    """
    count = program.processes_per_host or len(host.gpus) or 1
    if not host.gpus:
        return [()] * count
    share, rest = divmod(len(host.gpus), count)
    if rest or not share:
        raise LaunchError(
            f"{count} processes cannot share the {len(host.gpus)} GPUs of {host.name} equally. Change the number of processes per host."
        )
    return [host.gpus[index * share : (index + 1) * share] for index in range(count)]


def equal_slots(program: Program, hosts: Sequence[Host]) -> int:
    """Return the number of training processes that every host has. Raises LaunchError when the hosts differ."""
    counts = {host.name: len(slots(program, host)) for host in hosts}
    if len(set(counts.values())) > 1:
        listing = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise LaunchError(
            f"the hosts have different numbers of GPUs ({listing}). Run the job on equal hosts, or set the number of processes per host."
        )
    return counts[hosts[0].name]


def gpu_environment(gpus: Sequence[int]) -> dict[str, str]:
    """Return what shows a process these GPUs and no others, by the numbers that nvidia-smi uses; nothing on hosts without GPUs."""
    if not gpus:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in gpus)}


def hostfile(program: Program, hosts: Sequence[Host]) -> str:
    """Return the hosts with their slots, one per line, as mpirun and deepspeed read them."""
    return "".join(f"{host.name} slots={len(slots(program, host))}\n" for host in hosts)


def hostfile_path(job: str, process: str) -> str:
    """Return where a process finds the job's host file, on its own host."""
    return runtime_directory(job, process) + "/hostfile"


def remote_shell(job: str, process: str) -> str:
    """Return the command that takes the place of ssh for a process: it runs what follows on a host whose process has no argv."""
    return f"sh {runtime_directory(job, process)}/supervisor rsh"


def port(job: str, purpose: str = "") -> int:
    """Return a port for one purpose, derived from the job's name: two jobs on one port would join each other."""
    return FIRST_PORT + zlib.crc32((job + purpose).encode()) % PORT_COUNT
