# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Plans the processes of one attempt of a job: derives the specs of the supervisors from the parameters and the hosts.

Supervisors plan the next attempt with this code, on hosts without Ansible. host_processes.py plans the first attempt.
"""

from __future__ import annotations

import collections
import itertools
import os
from typing import Any, Iterator, Mapping, Sequence

from ..._launchers.base import Host, Process, Program
from ..._launchers.hostfile import hostfile, hostfile_path
from ..._launchers.ports import port
from ..._launchers.registry import LAUNCHERS
from .. import directories
from ..documents import Endpoint, JobSpec, ProcessSpec
from ..naming import STANDBY
from .efa import fabric_environment

# The command of a process on standby, which does nothing until its supervisor ends it.
WAIT = ("sleep", "infinity")

# The beginning of the names of the files and pipes of torch's flight recorder. torch appends the rank.
RECORDING = "flight_recorder_rank"


def plan_specs(params: Mapping[str, Any], paths: directories.Paths, names: Sequence[str] | None = None) -> list[ProcessSpec]:
    """Return the supervisors' specs for the processes of an attempt on the hosts with these names, or on all hosts. Raises LaunchError.

    `paths` determines the attempt number. The options of the launcher must be complete. The last `spares` hosts only wait.
    """
    hosts = sorted((Host(**host) for host in params["hosts"]), key=lambda host: host.number)
    code = params["sync_directory"] or paths.code
    program = make_program(params, code, paths.attempt)
    used = hosts[: len(hosts) - params["spares"]]
    processes = [complete(process) for process in LAUNCHERS[params["launcher"]].plan(program, used)]
    standby = standby_processes(processes, hosts) if params["spares"] else []
    shared: JobSpec = {
        "job": params["name"],
        "directory": paths.directory,
        "cwd": code,
        "programs": os.path.dirname(params["python"]),
        "processes": len(processes),
        "standby": len(standby),
        "lead": processes[0].name,
        "daemons": daemons(program, processes, used),
        "key": params["key"] or "",
        "hostfile": hostfile(program, used),
        "own_profile": not params["sandbox"],
        "peers": peers(hosts),
        "attempt": paths.attempt,
        "parameters": dict(params),
    }
    fabric = fabric_environment(used)
    gpus = {host.name: list(host.gpus) for host in hosts}
    slots: dict[str, Iterator[int]] = collections.defaultdict(itertools.count)
    found = []
    for process in (*processes, *standby):
        if names is None or process.host in names:
            variables = environment(params, paths, process, fabric)
            found.append(make_spec(shared, process, next(slots[process.host]), variables, gpus[process.host], params))
    return sorted(found, key=lambda spec: spec["rank"])


def peers(hosts: Sequence[Host]) -> list[str]:
    return [part for host in hosts for part in (host.name, host.address)]


def make_program(params: Mapping[str, Any], code: str, attempt: int) -> Program:
    """Return the program that the job runs. Without a source or repository, the script is at the top level of the code directory."""
    script = params["script"] or ""
    return Program(
        job=params["name"],
        python=params["python"],
        script=os.path.join(code, script if params["source"] or params["repository"] else os.path.basename(script)),
        arguments=params["arguments"],
        processes_per_host=params["processes_per_host"],
        options=params["launcher_options"],
        command=params["command"],
        attempt=attempt,
    )


def daemons(program: Program, processes: Sequence[Process], hosts: Sequence[Host]) -> dict[str, Endpoint]:
    """Return the endpoints of the processes that run commands for other hosts, keyed by host name."""
    addresses = {host.name: host.address for host in hosts}
    return {
        process.host: {"address": addresses[process.host], "port": port(program.run, process.name)}
        for process in processes
        if not process.argv
    }


def standby_processes(processes: Sequence[Process], hosts: Sequence[Host]) -> list[Process]:
    """Return the standby processes that give every host of the job as many units as the host with the most processes.

    A restart does not add units to a host. With these units, each host can run the processes of any other host in a later attempt.
    """
    counts = collections.Counter(process.host for process in processes)
    names = [host.name for host in hosts for _unit in range(max(counts.values()) - counts[host.name])]
    return [Process(name, len(processes) + index, list(WAIT), {}, f"standby{index}", STANDBY, ranks=()) for index, name in enumerate(names)]


def complete(process: Process) -> Process:
    """Return the process with its name and ranks set. By default, a process has one rank, and its name contains the rank."""
    ranks = [process.rank] if process.ranks is None else list(process.ranks)
    return process._replace(name=process.name or f"rank{process.rank}", ranks=ranks)


def environment(params: Mapping[str, Any], paths: directories.Paths, process: Process, fabric: dict[str, str]) -> dict[str, str]:
    """Return the environment of a process. User variables override launcher variables, and both override EFA variables.

    Among the user's variables, the variables for one task type override the variables for all processes.
    """
    general = {
        "DEEPLEARNING_JOB": params["name"],
        "DEEPLEARNING_JOB_DIRECTORY": paths.directory,
        "DEEPLEARNING_ATTEMPT": str(paths.attempt),
        "DEEPLEARNING_CHECKPOINT_DIRECTORY": paths.checkpoints,
        "DEEPLEARNING_TENSORBOARD_DIRECTORY": paths.tensorboard,
        "DEEPLEARNING_PROGRESS": paths.progress,
        "DEEPLEARNING_HOSTFILE": hostfile_path(params["name"], process.name),
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # Python shows the line at which a signal such as SIGSEGV kills it
        "HYDRA_FULL_ERROR": "1",  # Hydra shows the traceback of the script's exception
    }
    of_task = params["environment_by_task"].get(process.task, {})
    own = {name: str(value) for name, value in {**params["environment"], **params["secrets"], **of_task}.items()}
    return {**general, **flight_recorder(paths, own), **fabric, **process.environment, **own}


def flight_recorder(paths: directories.Paths, own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which torch records its last collective operations, and writes them to the attempt's folder of stacks.

    torch writes the files after a timeout, and when a supervisor writes to the pipe. Two of the settings also have a deprecated name, which
    is the only one that versions of torch before 2.9 know. If the user's variables contain either name, the setting is left out. The
    deprecated names are not returned, because newer versions write a warning about them to the log of each rank. torch fails if it cannot
    create the pipe. The pipe is therefore in the job's shared memory, which every process of the job can write to.

    Source: the documentation of ProcessGroupNCCL's environment variables.
    """
    size, files = "2000", os.path.join(paths.stacks, RECORDING)
    settings = (
        (("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"), size),
        (("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"), files),
        (("TORCH_NCCL_DUMP_ON_TIMEOUT",), "1"),
        (("TORCH_NCCL_DEBUG_INFO_PIPE_FILE",), "/dev/shm/" + RECORDING),
    )
    return {names[0]: value for names, value in settings if own.keys().isdisjoint(names)}


def make_spec(
    job: JobSpec, process: Process, slot: int, environment: dict[str, str], gpus: list[int], params: Mapping[str, Any]
) -> ProcessSpec:
    return {
        **job,
        "slot": slot,
        "name": process.name,
        "rank": process.rank,
        "ranks": list(process.ranks or []),
        "tagged": process.tagged,
        "part": process.part,
        "host": process.host,
        "argv": process.argv,
        "environment": environment,
        "gpus": gpus,
        "instance": params["instance_id"] or "",
        "capacity_end": params["capacity_end"] or 0.0,
        "rejoins": False,
        "elapsed": 0,
    }
