# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""PyTorch: one torchrun agent on each host, which starts the workers of that host."""

from __future__ import annotations

import re
from typing import Sequence

from .._job.naming import SPARE, WORKER
from .base import Culprit, Host, Launcher, LaunchError, Process, Program
from .gpu_shares import equal_slots, gpu_environment
from .ports import port

TAG = "[rank {}] "
# Patterns for torchrun's last messages: the first line about a failure, and the worker that failed first.
FAILURE = re.compile(r"torch.distributed.elastic.multiprocessing.api\b")
RANK, STATUS = re.compile(r"\s*rank\s*: (\d{1,7})\b"), re.compile(r"\s*exitcode\s*: (-?\d{1,3})\b")

# Intervals and timeouts are in seconds. With PyTorch's defaults, the other hosts need 45 s to continue after a host is lost.
RENDEZVOUS = {"keep_alive_interval": 2, "keep_alive_max_attempt": 3, "last_call_timeout": 5}


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return one agent per host. Raises LaunchError if an option is out of range, or if hosts would get different numbers of workers."""
    workers = equal_slots(program, hosts)
    least, restarts = _limits(program, hosts)
    elastic = least < len(hosts)
    # Agents that restart workers must coordinate. Other agents need no coordination, and their ranks follow the host numbers.
    dynamic = elastic or restarts > 0
    # Workers fail when a peer is lost, so one more restart is needed for each host that may be lost.
    restarts += len(hosts) - least
    # If the name of a log does not contain the rank, the lines of the log do. Agents that coordinate can be assigned any rank.
    tagged = dynamic or workers > 1
    world = range(workers * len(hosts))
    return [
        Process(
            host=host.name,
            rank=index,
            argv=[
                program.python,
                "-m",
                "torch.distributed.run",
                f"--nproc-per-node={workers}",
                *(_dynamic(program.run, hosts, index, least, restarts) if dynamic else _static(program.run, hosts, index)),
                *(["--tee=3"] if tagged else []),
                *_training(program),
            ],
            environment=_environment(host, workers, tagged, dynamic),
            part=SPARE if elastic and index else WORKER,
            name=f"agent{index}" if tagged else "",
            ranks=world if dynamic else world[index * workers : (index + 1) * workers],
            tagged=tagged,
        )
        for index, host in enumerate(hosts)
    ]


def _limits(program: Program, hosts: Sequence[Host]) -> tuple[int, int]:
    """Return the minimum number of hosts and the number of restarts. Raises LaunchError."""
    least, restarts = program.options["min_hosts"] or len(hosts), program.options["max_restarts"]
    if not 1 <= least <= len(hosts):
        raise LaunchError(f"min_hosts is {least}, but the job has {len(hosts)} hosts. Use 1 to {len(hosts)}, or 0 for all of them.")
    if restarts < 0:
        raise LaunchError(f"max_restarts is {restarts}, but it cannot be negative. Use 0 or more.")
    return least, restarts


def _environment(host: Host, workers: int, tagged: bool, dynamic: bool) -> dict[str, str]:
    """Return the environment of an agent, which its workers inherit."""
    return {
        # This is torchrun's default, set explicitly to avoid torchrun's warning. Several workers share the cores, and a single worker uses
        # all cores.
        **({"OMP_NUM_THREADS": "1"} if workers > 1 else {}),
        **({"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": TAG.format("${rank}")} if tagged else {}),
        # Without this variable, the remaining agents may connect to the old rendezvous after a host is lost, and fail.
        **({"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if dynamic else {}),
        # Use the interface that has the host's private address, never a bridge that has the same address on every host.
        "GLOO_SOCKET_IFNAME": host.interface,
        "NCCL_SOCKET_IFNAME": "=" + host.interface,
        **gpu_environment(host.gpus),
    }


def _static(run: str, hosts: Sequence[Host], index: int) -> list[str]:
    return [f"--nnodes={len(hosts)}", f"--node-rank={index}", f"--master-addr={hosts[0].name}", f"--master-port={port(run)}"]


def _dynamic(run: str, hosts: Sequence[Host], index: int, least: int, restarts: int) -> list[str]:
    """Return the arguments of an agent that joins a rendezvous on the first host at the start and after each restart of the workers."""
    # Without `is_host` and `--local-addr`, agents would derive these values from name resolution.
    settings = {**RENDEZVOUS, "is_host": int(not index)}
    return [
        f"--nnodes={least}:{len(hosts)}",
        f"--max-restarts={restarts}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={hosts[0].name}:{port(run)}",
        f"--rdzv-id={run}",
        "--rdzv-conf=" + ",".join(f"{name}={value}" for name, value in settings.items()),
        f"--local-addr={hosts[index].address}",
    ]


def _training(program: Program) -> list[str]:
    """Return the torchrun command line for a worker. Dollar signs, which begin torchrun's macros, are escaped.

    The first word of a command is not escaped, because torchrun does not expand macros in it.
    """
    if program.command:
        first, *rest = program.argv
        return ["--no-python", first, *_literal(rest)]
    return _literal([program.script, *program.arguments])


def _literal(words: Sequence[str]) -> list[str]:
    return [word.replace("$", "$$") for word in words]


def culprit(lines: Sequence[str]) -> Culprit | None:
    """Return the worker that torchrun reports as the root cause. The run time is linear in the number of lines."""
    begin = next((index for index, line in enumerate(lines) if "failed (exitcode" in line and FAILURE.search(line)), len(lines))
    cause = next((index for index in range(begin + 1, len(lines)) if lines[index].startswith("Root Cause")), len(lines))
    for index in range(cause + 1, len(lines) - 1):
        rank = RANK.match(lines[index])
        status = STATUS.match(lines[index + 1]) if rank else None
        if rank and status:
            return Culprit(rank[1], int(status[1]), begin)
    return None


LAUNCHER = Launcher(
    plan,
    options={"min_hosts": {"type": "int", "default": 0}, "max_restarts": {"type": "int", "default": 0}},
    tag=TAG,
    culprit=culprit,
)
