#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The part of a training job that happens on one host: check and unpack, start its processes, stop them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job
version_added: 0.1.0
short_description: Runs a distributed training job on the hosts of a cluster
description:
  - A job is one process or more on every host, started as transient systemd services in a slice of the job's own. They
    outlive Ansible's connection, run as an ordinary user, and stop means exactly that job with nothing left.
  - The task runs on every host that trains; O(state=prepared) first, so that nothing starts before all hosts have been found fit,
    then O(state=started) with the hosts' results in O(hosts). M(deeplearning.cluster.training_job_wait) waits for the end.
  - Each job has a directory on the shared storage with its code, logs, records, checkpoints and progress. It is never deleted.
  - The role P(deeplearning.cluster.training_job#role) does all this.
notes:
  - Hosts need the files of the role C(deeplearning.cluster.worker_metadata) and systemd 240 or later.
  - The code is sent by the action plugin of the same name, in one transfer.
options:
  name:
    description:
      - The job's name. At most 63 lower-case letters, digits and dashes.
    type: str
    required: true
  state:
    description:
      - V(prepared) checks the host and, on the first one, puts the code in the job's directory. Nothing runs yet.
        A job that has run is refused.
      - V(started) starts this host's processes. A job that is running is left alone.
      - V(stopped) ends this host's processes, first with SIGTERM and after O(stop_timeout) with SIGKILL, and fails if one is left.
    type: str
    choices: [prepared, started, stopped]
    default: started
  directory:
    description:
      - Where the jobs' directories are, on storage that all hosts share.
      - Required unless O(state=stopped).
    type: path
  script:
    description:
      - The training script. With O(source) its path in that directory, otherwise its path on the controller.
      - Required unless O(state=stopped).
    type: str
  source:
    description:
      - A directory on the controller that is copied whole, for scripts that consist of more than one file.
      - C(.git) and C(__pycache__) are left out.
    type: str
  arguments:
    description:
      - The script's arguments. They arrive as they are given; no shell sees them.
    type: list
    elements: str
    default: []
  environment:
    description:
      - Environment variables for the processes, on top of those of the user's login shell.
    type: dict
    default: {}
  secrets:
    description:
      - Environment variables whose values must not be seen. They are never part of a command line, a unit or a readable file.
    type: dict
    default: {}
  launcher:
    description:
      - How the hosts become processes. V(torchrun) starts one agent per host.
    type: str
    choices: [torchrun]
    default: torchrun
  python:
    description:
      - The Python of the environment that has the framework, on the hosts.
    type: path
    default: /opt/pytorch/bin/python
  user:
    description:
      - The user who runs the processes.
      - Required with O(state=started).
    type: str
  hosts:
    description:
      - The job's hosts, each with the RV(host) that O(state=prepared) returned there.
      - Required with O(state=started).
    type: list
    elements: dict
    suboptions:
      name:
        description: The name that the hosts use among themselves.
        type: str
        required: true
      address:
        description: The address in the cluster.
        type: str
        required: true
      number:
        description: The worker number. The lowest is the first.
        type: int
        required: true
      gpu_count:
        description: How many GPUs it has.
        type: int
        required: true
      interface:
        description: The network interface that carries the address.
        type: str
        required: true
      efa:
        description: Whether it has Elastic Fabric Adapters.
        type: bool
        default: false
  processes_per_host:
    description:
      - How many training processes a host runs. V(0) means one for each GPU, or one where there is none.
    type: int
    default: 0
  time_limit:
    description:
      - After so many seconds the hosts end the job, which then has failed. They do so without the controller.
      - V(0) means no limit.
    type: int
    default: 0
  stop_timeout:
    description:
      - Seconds between SIGTERM and SIGKILL when the job is stopped. O(state=stopped) uses what the job was started with.
    type: int
    default: 30
  heartbeat_timeout:
    description:
      - A process whose record is older than so many seconds counts as lost.
    type: int
    default: 60
  generation:
    description:
      - The generation of the cluster's metadata that the hosts must have.
      - When omitted it is what the inventory says, that is all its hosts with the same C(deeplearning_cluster_name).
    type: str
  efa:
    description:
      - Whether the host has Elastic Fabric Adapters. O(state=prepared) then makes sure that they can be used, and processes on more
        than one such host use them or fail, instead of falling back to TCP. O(environment) can override that.
      - When omitted it is what the inventory says in C(deeplearning_has_efa).
    type: bool
  archive:
    description:
      - A tar file of the code on the host. The action plugin sets it.
    type: path
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Check the hosts and copy the code
  deeplearning.cluster.training_job:
    name: digits-1
    state: prepared
    directory: /efs/jobs
    script: examples/digits/train.py
  register: prepared
  any_errors_fatal: true

- name: Start the job
  deeplearning.cluster.training_job:
    name: digits-1
    state: started
    directory: /efs/jobs
    script: examples/digits/train.py
    arguments: ["--epochs", "20"]
    user: ubuntu
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars, ['prepared', 'host']) }}"
  become: true

- name: Stop the job on every host
  deeplearning.cluster.training_job:
    name: digits-1
    state: stopped
  become: true
"""

RETURN = r"""
host:
  description: This host, as O(hosts) wants it.
  returned: when O(state=prepared)
  type: dict
  sample: {name: deeplearning-worker1, address: 10.0.0.10, number: 1, gpu_count: 8, interface: ens5, efa: true}
job_state:
  description: V(new), or V(running) when the job has been started before and can be waited for.
  returned: when O(state=prepared)
  type: str
  sample: new
job_directory:
  description: The job's directory on the shared storage.
  returned: unless O(state=stopped)
  type: str
  sample: /efs/jobs/digits-1
processes:
  description: The processes on this host.
  returned: when O(state=started)
  type: list
  elements: dict
  contains:
    rank:
      description: The index of the process in the job.
      type: int
    argv:
      description: Its command line.
      type: list
      elements: str
    unit:
      description: Its systemd service.
      type: str
    log:
      description: The file with its output.
      type: str
"""

import fcntl
import json
import os
import pwd
import shutil
import socket
import struct
import sys
import tarfile
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils import job, job_units
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, Process, Program
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.fabric import fabric_environment, missing_for_efa
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.registry import LAUNCHERS
from ansible_collections.deeplearning.cluster.plugins.module_utils.metadata import parse_metadata

METADATA = "/opt/deeplearning/metadata.json"

# linux/sockios.h
SIOCGIFADDR = 0x8915


class RefusalError(Exception):
    """This host cannot run the job; the text says why and what to do."""


def prepare(module: AnsibleModule, paths: job.Paths) -> dict[str, Any]:
    """Check the host, and unpack the code if this is the host that got it. Raises RefusalError."""
    params = module.params
    metadata = read_metadata(params["generation"])
    host = describe_host(metadata, bool(params["efa"]))
    if host.efa:
        missing = missing_for_efa(module.run_command)
        if missing:
            raise RefusalError(f"{host.name} has EFA and cannot use it: {missing}")
    if not os.access(params["python"], os.X_OK):
        raise RefusalError("python {!r} is not there: name the Python that has the framework".format(params["python"]))
    if len(metadata["workers"]) > 1 and mount_point(paths.directory) == "/":
        raise RefusalError("directory {!r} is on this host's own disk: jobs need storage that all hosts share".format(params["directory"]))
    state = check_job(params["name"], paths, params["heartbeat_timeout"])
    unpack = bool(params["archive"]) and state == "new"
    if unpack and not module.check_mode:
        install_code(params, paths)
    return {"changed": unpack, "host": host._asdict(), "job_state": state, "job_directory": paths.directory}


def read_metadata(generation: str) -> dict[str, Any]:
    """Return the worker metadata of this host. Raises RefusalError when it is missing or of another generation."""
    hint = "configure the cluster's hosts again (role worker_metadata)"
    try:
        with open(METADATA, encoding="utf-8") as file:
            metadata = parse_metadata(file.read())
    except (OSError, ValueError) as error:
        raise RefusalError(f"cannot use {METADATA}: {error}; {hint}") from error
    if generation and metadata["generation"] != generation:
        raise RefusalError(
            "the metadata on this host has generation {}, the inventory says {}: the cluster has changed since; {}".format(
                metadata["generation"], generation, hint
            )
        )
    return metadata


def describe_host(metadata: dict[str, Any], efa: bool) -> Host:
    """Return this host from its metadata. Raises RefusalError when no interface has the address."""
    worker = next(worker for worker in metadata["workers"] if worker["number"] == metadata["number"])
    for _unused, name in socket.if_nameindex():
        if interface_address(name) == worker["address"]:
            return Host(worker["name"], worker["address"], worker["number"], metadata["gpu_count"], name, efa)
    raise RefusalError("no network interface of this host has its address {}".format(worker["address"]))


def interface_address(interface: str) -> str:
    """Return the interface's IPv4 address, or nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])


def mount_point(path: str) -> str:
    """Return the mount point that a path, which need not exist, is or would be under."""
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def check_job(name: str, paths: job.Paths, heartbeat_timeout: int) -> str:
    """Return C(new) or C(running). Raises RefusalError for a job that has ended, because its results would be mixed with another's."""
    records = job.read_records(paths)
    if not records:
        return "new"
    states = [job.process_state(record, time.time(), heartbeat_timeout) for record in records]
    count = records[0]["processes"]
    # Where one process has failed and others go on, waiting for the job finds that out and the rest can be stopped.
    if len(states) < count or job.RUNNING in states or job.LOST in states:
        return "running"
    state = job.job_state(states, count)
    raise RefusalError(f"job {name} has already run ({state}) and its results are in {paths.directory}: choose another name")


def install_code(params: dict[str, Any], paths: job.Paths) -> None:
    """Unpack the code and describe the job. A job of this name that never started is replaced."""
    shutil.rmtree(paths.code, ignore_errors=True)
    for directory in (paths.code, paths.logs, paths.status, paths.checkpoints, paths.tensorboard):
        os.makedirs(directory, exist_ok=True)
    with tarfile.open(params["archive"]) as archive:
        archive.extractall(paths.code)
    description = {key: params[key] for key in ("name", "script", "arguments", "launcher", "python", "time_limit")}
    description["created"] = time.time()
    with open(paths.description, "w", encoding="utf-8") as file:
        json.dump(description, file, indent=2)


def plan(params: dict[str, Any], paths: job.Paths, own_number: int) -> list[dict[str, Any]]:
    """Return the supervisor's specs for the processes of the host with that number. Raises LaunchError, RefusalError."""
    hosts = sorted((Host(**host) for host in params["hosts"]), key=lambda host: host.number)
    own = [host.name for host in hosts if host.number == own_number]
    if not own:
        raise RefusalError(f"this host is number {own_number}, which is not among the job's hosts")
    script = params["script"] if params["source"] else os.path.basename(params["script"])
    program = Program(params["name"], params["python"], os.path.join(paths.code, script), params["arguments"], params["processes_per_host"])
    processes = LAUNCHERS[params["launcher"]](program, hosts)
    fabric = fabric_environment(hosts)
    return [make_spec(params, paths, process, len(processes), fabric) for process in processes if process.host in own]


def make_spec(params: dict[str, Any], paths: job.Paths, process: Process, processes: int, fabric: dict[str, str]) -> dict[str, Any]:
    """Return what the supervisor needs to know about one process."""
    own = {name: str(value) for name, value in {**params["environment"], **params["secrets"]}.items()}
    return {
        "rank": process.rank,
        "processes": processes,
        "host": process.host,
        "argv": process.argv,
        "environment": {**job.environment(params["name"], paths), **fabric, **process.environment, **own},
        "cwd": paths.code,
        "log": paths.log(process.rank),
        "record": paths.record(process.rank),
        "time_limit": params["time_limit"],
        "stop_timeout": params["stop_timeout"],
    }


def start(module: AnsibleModule, paths: job.Paths) -> dict[str, Any]:
    """Start this host's processes unless they run. Raises LaunchError, RefusalError, UnitError."""
    params = module.params
    name = params["name"]
    try:
        pwd.getpwnam(params["user"])
    except KeyError as error:
        raise RefusalError("user {!r} does not exist on this host".format(params["user"])) from error
    specs = plan(params, paths, read_metadata(params["generation"])["number"])
    with job_units.exclusive():
        active = job_units.active_units(module.run_command, name)
        for spec in specs:
            if not active and os.path.exists(spec["record"]):
                raise RefusalError("rank {} of job {} has already run: choose another name".format(spec["rank"], name))
        if not active and not module.check_mode:
            place = job_units.Place(params["user"], sys.executable)
            for spec in specs:
                job_units.start(module.run_command, name, place, spec)
    processes = [
        {"rank": spec["rank"], "argv": spec["argv"], "unit": job.unit_name(name, spec["rank"]), "log": spec["log"]} for spec in specs
    ]
    return {"changed": not active, "processes": processes, "job_directory": paths.directory}


def stop(module: AnsibleModule) -> dict[str, Any]:
    """End this host's processes. Raises UnitError when one is left."""
    name = module.params["name"]
    running = bool(job_units.active_units(module.run_command, name) or job_units.processes(name))
    if running and not module.check_mode:
        job_units.stop(module.run_command, name)
    return {"changed": running}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["prepared", "started", "stopped"], "default": "started"},
            "directory": {"type": "path"},
            "script": {"type": "str"},
            "source": {"type": "str"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "environment": {"type": "dict", "default": {}},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "launcher": {"type": "str", "choices": ["torchrun"], "default": "torchrun"},
            "python": {"type": "path", "default": "/opt/pytorch/bin/python"},
            "user": {"type": "str"},
            "hosts": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "name": {"type": "str", "required": True},
                    "address": {"type": "str", "required": True},
                    "number": {"type": "int", "required": True},
                    "gpu_count": {"type": "int", "required": True},
                    "interface": {"type": "str", "required": True},
                    "efa": {"type": "bool", "default": False},
                },
            },
            "processes_per_host": {"type": "int", "default": 0},
            "time_limit": {"type": "int", "default": 0},
            "stop_timeout": {"type": "int", "default": 30},
            "heartbeat_timeout": {"type": "int", "default": 60},
            "generation": {"type": "str"},
            "efa": {"type": "bool"},
            "archive": {"type": "path"},
        },
        required_if=[
            ("state", "prepared", ("directory", "script")),
            ("state", "started", ("directory", "script", "user", "hosts")),
        ],
        supports_check_mode=True,
    )
    state = module.params["state"]
    try:
        name = job.check_name(module.params["name"])
        if state == "stopped":
            module.exit_json(**stop(module))
        paths = job.Paths(os.path.join(module.params["directory"], name))
        module.exit_json(**(prepare(module, paths) if state == "prepared" else start(module, paths)))
    except (RefusalError, ValueError, job_units.UnitError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
