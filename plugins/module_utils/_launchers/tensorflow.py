# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""TensorFlow: mirrored workers, or workers with parameter servers. Processes get each other's addresses from TF_CONFIG or from flags."""

from __future__ import annotations

import json
from collections import Counter
from typing import Dict, List, Sequence, Tuple

from .._job.naming import SERVICE, WORKER
from .base import Host, Launcher, LaunchError, Process, Program
from .gpu_shares import gpu_environment, slots
from .ports import port

MULTI_WORKER, PARAMETER_SERVER, FLAGS = "multi_worker", "parameter_server", "flags"
TASKS = {MULTI_WORKER: ("worker",), PARAMETER_SERVER: ("chief", "worker", "ps"), FLAGS: ("worker", "ps")}

# The tasks of a TensorFlow cluster, by type. The job waits for the tasks of the first type, chief or worker.
TaskHosts = Dict[str, List[Tuple[Host, Sequence[int]]]]
Addresses = Dict[str, List[str]]


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return one process for each task of the strategy. Raises LaunchError if the strategy cannot use the hosts or ports."""
    places = _places(program, hosts)
    addresses = _addresses(program, places)
    tasks = [(kind, index) for kind, same in places.items() for index in range(len(same))]
    return [
        Process(
            host=places[kind][index][0].name,
            rank=rank,
            argv=[*program.argv, *_arguments(program, addresses, kind, index)],
            environment={**_devices(kind, *places[kind][index]), **_environment(program, addresses, kind, index)},
            name=f"{kind}{index}",
            part=WORKER if kind == tasks[0][0] else SERVICE,
            task=kind,
        )
        for rank, (kind, index) in enumerate(tasks)
    ]


def _places(program: Program, hosts: Sequence[Host]) -> TaskHosts:
    strategy, servers = program.options["strategy"], program.options["servers"]
    # A mirrored worker trains on all GPUs of its host.
    whole_hosts = strategy == MULTI_WORKER and not program.processes_per_host
    workers = [(host, gpus) for host in hosts for gpus in ([host.gpus] if whole_hosts else slots(program, host))]
    if strategy != FLAGS:
        _check_equal(workers)
    if strategy == MULTI_WORKER:
        return {"worker": workers}
    if servers < 0:
        raise LaunchError(
            f"servers is {servers}, but it cannot be negative. Specify the number of parameter servers, or 0 for one per host."
        )
    places: TaskHosts = {"worker": workers, "ps": [(hosts[index % len(hosts)], ()) for index in range(servers or len(hosts))]}
    return places if strategy == FLAGS else {"chief": [(hosts[0], ())], **places}


def _check_equal(workers: Sequence[tuple[Host, Sequence[int]]]) -> None:
    """Raise LaunchError if workers have different numbers of GPUs, which TensorFlow's strategies do not support."""
    counts = {host.name: len(gpus) for host, gpus in workers}
    if len(set(counts.values())) > 1:
        listing = ", ".join(f"on {name}: {count}" for name, count in counts.items())
        raise LaunchError(
            f"the workers would have different numbers of GPUs ({listing})."
            " Use hosts with the same number of GPUs, or set processes_per_host or gpus."
        )


def _addresses(program: Program, places: TaskHosts) -> Addresses:
    """Return the addresses of the tasks.

    The ports on a host are consecutive. The first port is the job's port or, with the strategy `flags`, the first port for the task type.
    """
    flags = program.options["strategy"] == FLAGS
    taken: Counter[tuple[str, int]] = Counter()
    addresses: Addresses = {}
    for kind, same in places.items():
        first = program.options[f"first_{kind}_port"] if flags else port(program.run)
        for host, _gpus in same:
            addresses.setdefault(kind, []).append(f"{host.name}:{first + taken[host.name, first]}")
            taken[host.name, first] += 1
    every = [address for same in addresses.values() for address in same]
    if len(set(every)) < len(every):
        raise LaunchError(
            "first_ps_port {first_ps_port} and first_worker_port {first_worker_port} are too close to each other."
            " Leave enough ports between the two values for the parameter servers and workers of a host.".format(**program.options)
        )
    return addresses


def _arguments(program: Program, addresses: Addresses, kind: str, index: int) -> list[str]:
    if program.options["strategy"] != FLAGS:
        return []
    return [
        "--ps_hosts=" + ",".join(addresses["ps"]),
        "--worker_hosts=" + ",".join(addresses["worker"]),
        f"--job_name={kind}",
        f"--task_index={index}",
    ]


def _environment(program: Program, addresses: Addresses, kind: str, index: int) -> dict[str, str]:
    strategy = program.options["strategy"]
    if strategy == FLAGS:
        return {}
    config = {"TF_CONFIG": json.dumps({"cluster": addresses, "task": {"type": kind, "index": index}})}
    # Without this variable, a coordinator waits for a lost worker or server instead of reporting the loss.
    return {**config, "GRPC_FAIL_FAST": "use_caller"} if strategy == PARAMETER_SERVER else config


def _devices(kind: str, host: Host, gpus: Sequence[int]) -> dict[str, str]:
    """Return the variables that make GPUs visible only to workers, because other tasks would occupy GPU memory."""
    if kind != "worker":
        return {"CUDA_VISIBLE_DEVICES": ""}
    return {"NCCL_SOCKET_IFNAME": "=" + host.interface, **gpu_environment(gpus)}


LAUNCHER = Launcher(
    plan,
    options={
        "strategy": {"type": "str", "choices": [MULTI_WORKER, PARAMETER_SERVER, FLAGS], "default": MULTI_WORKER},
        "servers": {"type": "int", "default": 0},
        "first_ps_port": {"type": "int", "default": 2222},
        "first_worker_port": {"type": "int", "default": 2230},
    },
    tasks=lambda options: TASKS[options["strategy"]],
)
