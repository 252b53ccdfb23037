# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Plans the processes of a job on one host: derives the specs of the supervisors from the options and the hosts."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.efa import fabric_environment
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.specification import RefusalError, find_launcher
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.documents import Endpoint, JobSpec, Spec
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import (
    Host,
    Process,
    Program,
    hostfile,
    hostfile_path,
    port,
)


def plan(params: dict[str, Any], paths: records.Paths, own_number: int | None = None) -> list[Spec]:
    """Return the supervisors' specs for the processes on host number `own_number`, or on all hosts. Raises LaunchError, RefusalError."""
    hosts = sorted((Host(**host) for host in params["hosts"]), key=lambda host: host.number)
    own = [host.name for host in hosts if own_number in (None, host.number)]
    if not own:
        raise RefusalError(f"hosts: this host is number {own_number}, which is not in the list. Add this host to the list.")
    code = params["sync_directory"] or paths.code
    launcher = find_launcher(params)
    program = make_program(params, code)
    processes = [complete(process) for process in launcher.plan(program, hosts)]
    shared: JobSpec = {
        "job": params["name"],
        "directory": paths.directory,
        "cwd": code,
        "programs": os.path.dirname(params["python"]),
        "processes": len(processes),
        "lead": processes[0].name,
        "daemons": daemons(params, processes, hosts),
        "key": params["key"] or "",
        "hostfile": hostfile(program, hosts),
        "own_profile": not params["sandbox"],
        "time_limit": params["time_limit"],
        "stop_timeout": params["stop_timeout"],
        "heartbeat_timeout": params["heartbeat_timeout"],
    }
    fabric = fabric_environment(hosts)
    gpus = {host.name: list(host.gpus) for host in hosts}
    return [
        make_spec(shared, process, environment(params, paths, process, fabric), gpus[process.host], params["instance_id"] or "")
        for process in processes
        if process.host in own
    ]


def make_program(params: dict[str, Any], code: str) -> Program:
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
    )


def daemons(params: dict[str, Any], processes: list[Process], hosts: list[Host]) -> dict[str, Endpoint]:
    """Return the endpoints of the processes that run commands for other hosts, keyed by host name. Raises RefusalError."""
    addresses = {host.name: host.address for host in hosts}
    found: dict[str, Endpoint] = {
        process.host: {"address": addresses[process.host], "port": port(params["name"], process.name)}
        for process in processes
        if not process.argv
    }
    if found and not params["key"]:
        raise RefusalError("key: is missing. Launcher {!r} needs the same random string on all hosts.".format(params["launcher"]))
    return found


def complete(process: Process) -> Process:
    """Return the process with its name and ranks set. By default, a process has one rank, and its name contains the rank."""
    ranks = [process.rank] if process.ranks is None else list(process.ranks)
    return process._replace(name=process.name or f"rank{process.rank}", ranks=ranks)


def environment(params: dict[str, Any], paths: records.Paths, process: Process, fabric: dict[str, str]) -> dict[str, str]:
    """Return the environment of a process. User variables override launcher variables, and both override EFA variables.

    Of the user's variables, those for one task type override those for all processes.
    """
    general = {
        "DEEPLEARNING_JOB": params["name"],
        "DEEPLEARNING_JOB_DIRECTORY": paths.directory,
        "DEEPLEARNING_CHECKPOINT_DIRECTORY": paths.checkpoints,
        "DEEPLEARNING_TENSORBOARD_DIRECTORY": paths.tensorboard,
        "DEEPLEARNING_PROGRESS": paths.progress,
        "DEEPLEARNING_HOSTFILE": hostfile_path(params["name"], process.name),
        "PYTHONUNBUFFERED": "1",
    }
    of_task = params["environment_by_task"].get(process.task, {})
    own = {name: str(value) for name, value in {**params["environment"], **params["secrets"], **of_task}.items()}
    return {**general, **fabric, **process.environment, **own}


def make_spec(job: JobSpec, process: Process, environment: dict[str, str], gpus: list[int], instance: str) -> Spec:
    """Return the spec that the supervisor of a process reads."""
    return {
        **job,
        "name": process.name,
        "rank": process.rank,
        "ranks": list(process.ranks or []),
        "tagged": process.tagged,
        "part": process.part,
        "host": process.host,
        "argv": process.argv,
        "environment": environment,
        "gpus": gpus,
        "instance": instance,
    }
