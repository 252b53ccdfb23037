# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""PyTorch: one torchrun agent on each host, which starts that host's workers."""

from __future__ import annotations

from typing import Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import SPARE, WORKER
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import (
    Host,
    Launcher,
    LaunchError,
    Process,
    Program,
    equal_slots,
    gpu_environment,
    port,
)

TAG = "[rank {}] "
# What torchrun says last, from its first word about a failure to the worker that it saw failing first.
CULPRIT = (
    r"(?m)^.*\btorch.distributed.elastic.multiprocessing.api\b.*failed \(exitcode.*\n(?:.*\n)*?"
    r"Root Cause.*\n(?:.*\n)*?\s*rank\s*: (?P<rank>\d+).*\n\s*exitcode\s*: (?P<status>-?\d+)"
)

# Seconds. With PyTorch's own values the others need three quarters of a minute to go on after a host is lost.
RENDEZVOUS = {"keep_alive_interval": 2, "keep_alive_max_attempt": 3, "last_call_timeout": 5}


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return one agent per host. Raises LaunchError for unequal hosts, or too few."""
    workers = equal_slots(program, hosts)
    least, restarts = program.options["min_hosts"] or len(hosts), program.options["max_restarts"]
    if not 1 <= least <= len(hosts):
        raise LaunchError(f"min_hosts is {least} and the job has {len(hosts)} hosts: use 1 to {len(hosts)}, or 0 for all of them")
    if restarts < 0:
        raise LaunchError(f"max_restarts is {restarts}: use 0 or more")
    elastic = least < len(hosts)
    # Agents that restart workers must agree on it. Others need not talk to each other, and the ranks follow the hosts' numbers.
    dynamic = elastic or restarts > 0
    # Workers whose peer is lost fail: each host that may be lost takes one restart.
    restarts += len(hosts) - least
    # Where the log's name does not tell the rank, the lines do. Agents that agree on the ranks themselves may have any of them.
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
                *(_dynamic(program.job, hosts, index, least, restarts) if dynamic else _static(program.job, hosts, index)),
                *(["--tee=3"] if tagged else []),
                *_training(program),
            ],
            environment={
                # What torchrun itself would choose, without its warning: several workers share the cores, a single one has them all.
                **({"OMP_NUM_THREADS": "1"} if workers > 1 else {}),
                **({"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": TAG.format("${rank}")} if tagged else {}),
                # Without it those who are left after a loss may look for each other where they met before, and die.
                **({"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if dynamic else {}),
                # The interface of the cluster's address, never a bridge that has the same address on every host.
                "GLOO_SOCKET_IFNAME": host.interface,
                "NCCL_SOCKET_IFNAME": "=" + host.interface,
                **gpu_environment(host.gpus),
            },
            part=SPARE if elastic and index else WORKER,
            name=f"agent{index}" if tagged else "",
            ranks=world if dynamic else world[index * workers : (index + 1) * workers],
            tag=TAG if tagged else "",
            culprit=CULPRIT,
        )
        for index, host in enumerate(hosts)
    ]


def _static(job: str, hosts: Sequence[Host], index: int) -> list[str]:
    """Return the arguments of an agent whose peers are all known."""
    return [f"--nnodes={len(hosts)}", f"--node-rank={index}", f"--master-addr={hosts[0].name}", f"--master-port={port(job)}"]


def _dynamic(job: str, hosts: Sequence[Host], index: int, least: int, restarts: int) -> list[str]:
    """Return the arguments of an agent that finds its peers anew, at the first host, whenever workers are restarted."""
    # Which host that is, and where the others reach this one, agents would guess from what names resolve to.
    settings = {**RENDEZVOUS, "is_host": int(not index)}
    return [
        f"--nnodes={least}:{len(hosts)}",
        f"--max-restarts={restarts}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={hosts[0].name}:{port(job)}",
        f"--rdzv-id={job}",
        "--rdzv-conf=" + ",".join(f"{name}={value}" for name, value in settings.items()),
        f"--local-addr={hosts[index].address}",
    ]


def _training(program: Program) -> list[str]:
    """Return the command line of a worker in torchrun's words, where a dollar sign begins a macro (not in the first of a command)."""
    if program.command:
        first, *rest = program.argv
        return ["--no-python", first, *_literal(rest)]
    return _literal([program.script, *program.arguments])


def _literal(words: Sequence[str]) -> list[str]:
    return [word.replace("$", "$$") for word in words]


LAUNCHER = Launcher(plan, options={"min_hosts": {"type": "int", "default": 0}, "max_restarts": {"type": "int", "default": 0}})
