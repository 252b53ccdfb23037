# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The interface of launchers. Each launcher has a pure function that derives the processes of a job from its program and hosts."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Sequence

from .._job.naming import WORKER

# A failed process must exit immediately. If it exited normally, its framework would wait for the other processes, which wait for this
# process. SIGUSR1 shows the stack of a process that hangs.
RUN_SCRIPT = """\
import faulthandler, os, runpy, signal, sys
faulthandler.register(signal.SIGUSR1)
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
    """A host of the job.

    `name` is the host name that other hosts use for this host. `interface` is the network interface that has the IP address `address`.

    `gpus` contains the indices of the GPUs that the job may use. `efa` is true if the host has Elastic Fabric Adapters.
    """

    name: str
    address: str
    number: int
    gpus: Sequence[int]
    interface: str
    efa: bool = False


class Program(NamedTuple):
    """The program of a job: a Python `script` or a `command`, with its `arguments`.

    If `processes_per_host` is 0, each host gets one process per GPU, or one process if it has no GPUs. `options` contains the options of
    the launcher. `attempt` is the number of the job's attempt, beginning with 1.
    """

    job: str
    python: str
    script: str
    arguments: Sequence[str] = ()
    processes_per_host: int = 0
    options: Mapping[str, Any] = {}
    command: Sequence[str] = ()
    attempt: int = 1

    @property
    def run(self) -> str:
        """The ID of this attempt, from which ports and rendezvous IDs are derived, so that no process of an earlier attempt can join."""
        return self.job if self.attempt == 1 else f"{self.job}.{self.attempt}"

    @property
    def argv(self) -> list[str]:
        return [*(self.command or (self.python, self.script)), *self.arguments]

    @property
    def abrupt_argv(self) -> list[str]:
        """The command line for frameworks whose processes wait for each other at exit: the process ends immediately if its script fails.

        A `command` is not wrapped, so the program itself must end immediately if it fails.
        """
        return self.argv if self.command else [self.python, "-c", RUN_SCRIPT, self.script, *self.arguments]


class Process(NamedTuple):
    """One process to start on one host.

    `rank` is the index of the process in the job. `name` is the name of the process's log, record and unit (lowercase letters, then
    digits), by default `rank<rank>`. `part` is the role of the process. When the last worker ends, the job stops its services and ends. If
    a job loses spares, it continues. `task` is the process's type in the framework, if the launcher starts processes of several types. A
    process without `argv` runs the commands that other hosts of the job send (see `remote_shell`).

    If the process starts other training processes, `ranks` contains their ranks. If `tagged` is true, each rank's lines in the
    log begin with the launcher's `tag`, so that users can read the log of a single rank.
    """

    host: str
    rank: int
    argv: list[str]
    environment: dict[str, str]
    name: str = ""
    part: str = WORKER
    ranks: Sequence[int] | None = None
    tagged: bool = False
    task: str = ""


class Culprit(NamedTuple):
    """The `rank` that failed first, its exit `status` (negative for a signal), and the index of the `line` that reports the failure."""

    rank: str
    status: int
    line: int


class LaunchError(ValueError):
    """The hosts cannot run the job. The message states the reason and the remedy."""


class Launcher(NamedTuple):
    """A launcher. `plan` returns the processes, starting with rank 0. `options` is the argument spec of the launcher's own options.

    `tag` is the prefix of the lines in a log that ranks share; `{}` stands for the rank. `culprit` finds the rank that failed first in the
    lines of a log that several ranks share, or to which the launcher itself writes. In a log without tags, the line that reports the
    failure and all later lines come from the launcher.

    `tasks` returns the types of the processes that the launcher starts with these options. Most launchers start only one type of process.
    """

    plan: Callable[[Program, Sequence[Host]], list[Process]]
    options: Mapping[str, Mapping[str, Any]] = {}
    tag: str = ""
    culprit: Callable[[Sequence[str]], Culprit | None] | None = None
    tasks: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _options: ()
