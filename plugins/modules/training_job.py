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
  - Jobs run as a user of their own, who cannot become root, cannot log in, and sees no home directory but their own.
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
      - V(checked) looks for mistakes in the job's description, on the controller alone, and asks no host.
      - V(prepared) checks the host and, on the first one, puts the code in the job's directory. Nothing runs yet.
        A job that has run is refused.
      - V(started) starts this host's processes. A job that is running is left alone.
      - V(stopped) ends this host's processes, first with SIGTERM and after O(stop_timeout) with SIGKILL, and fails if one is left.
    type: str
    choices: [checked, prepared, started, stopped]
    default: started
  directory:
    description:
      - Where the jobs' directories are, on storage that all hosts share.
      - Required with O(state=prepared) and O(state=started).
    type: path
  script:
    description:
      - The training script. With O(source) its path in that directory, otherwise its path on the controller.
      - Required unless O(state=stopped) or there is a O(command).
    type: str
  command:
    description:
      - What each training process runs in place of a Python O(script), for example V([bash, run.sh]). O(arguments) follow.
      - It is looked for beside O(python) and then in C(PATH); the working directory is the code's.
    type: list
    elements: str
    default: []
  source:
    description:
      - A directory on the controller that is copied, for scripts that consist of more than one file.
      - Where it is a git work tree, the job's description has the commit, and whether files differ from it.
    type: str
  repository:
    description:
      - A git repository that is fetched on the controller and copied, in place of a O(source).
      - The controller's own git fetches it, with the keys and credentials it has there; it cannot ask for any.
    type: str
  version:
    description:
      - The branch, tag or commit of the O(repository). When omitted, its default branch.
    type: str
  exclude:
    description:
      - What is not copied of a O(source) or O(repository), as patterns such as V(*.ckpt) for the names of files and directories anywhere
        in it; one with a slash, such as V(data/raw), is for paths from its top.
      - When omitted, V(.git), V(__pycache__), V(.venv), V(venv), V(.ipynb_checkpoints), V(.mypy_cache), V(.pytest_cache), V(.ruff_cache).
    type: list
    elements: str
  sync_directory:
    description:
      - A directory on each host's own disk into which the job's code is copied, and where its processes run. When omitted they run in
        the job's directory on the shared storage.
      - What an earlier job has left there is replaced. A directory with anything else in it is refused, and so is one that another
        job uses which runs on the host.
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
  key:
    description:
      - A random text by which the processes of a job know each other, where a launcher has them start commands on other hosts
        (V(mpi) and V(horovod)). The same on all hosts, and another one for each job.
    type: str
  launcher:
    description:
      - How the hosts become processes, for example V(torchrun), which starts one agent per host. The page C(docs/launchers.md) has all.
    type: str
    default: torchrun
  launcher_options:
    description:
      - What is special to the launcher.
    type: dict
    default: {}
  python:
    description:
      - The Python of the environment that has the framework, on the hosts. Launchers need it too when there is a O(command).
    type: path
    default: /opt/pytorch/bin/python
  user:
    description:
      - The user who runs the processes. All hosts must have this user with the same id.
      - The default one is made on hosts that lack it, with the uid and gid 61000. It has no password, is in no group but its own, and
        cannot log in.
    type: str
    default: deeplearning
  sandbox:
    description:
      - Whether the processes are kept from gaining privileges (C(NoNewPrivileges)), and see of C(/home), C(/root) and C(/run/user) only
        the home of O(user), O(sync_directory), the environment of O(python), and shared storage that is mounted there.
    type: bool
    default: true
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
      gpus:
        description: The indices of the GPUs that the job uses.
        type: list
        elements: int
        required: true
      interface:
        description: The network interface that carries the address.
        type: str
        required: true
      efa:
        description: Whether it has Elastic Fabric Adapters.
        type: bool
        default: false
  gpus:
    description:
      - The indices of the GPUs that the job may use on each host, as C(nvidia-smi) counts them, for jobs that share hosts.
      - When omitted, all. A job whose GPUs another one uses on the same host is refused.
    type: list
    elements: int
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
  code:
    description:
      - What git knows of the code. The action plugin sets it.
    type: dict
    default: {}
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
  become: true
  any_errors_fatal: true

- name: Start the job
  deeplearning.cluster.training_job:
    name: digits-1
    state: started
    directory: /efs/jobs
    script: examples/digits/train.py
    arguments: ["--epochs", "20"]
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars, ['prepared', 'host']) }}"
  become: true

- name: Check the hosts and copy a tagged version of the code
  deeplearning.cluster.training_job:
    name: bert-1
    state: prepared
    directory: /efs/jobs
    repository: git@git.example.com:research/bert.git
    version: v1.2
    script: src/train.py
    exclude: [.git, "*.ipynb"]
  register: prepared
  become: true
  any_errors_fatal: true

- name: Stop the job on every host
  deeplearning.cluster.training_job:
    name: digits-1
    state: stopped
  become: true
"""

RETURN = r"""
running:
  description: The other jobs that run on this host, as systemd has them.
  returned: when O(state=stopped)
  type: list
  elements: str
host:
  description: This host, as O(hosts) wants it.
  returned: when O(state=prepared)
  type: dict
  contains:
    name:
      description: The name that hosts use among themselves.
      type: str
      sample: deeplearning-worker1
    address:
      description: Its private address.
      type: str
      sample: 10.0.0.10
    number:
      description: Its number.
      type: int
    gpus:
      description: The indices of the GPUs that the job may use.
      type: list
      elements: int
      sample: [0, 1, 2, 3]
    interface:
      description: The network interface with the address.
      type: str
      sample: ens5
    efa:
      description: Whether the host has EFA.
      type: bool
job_state:
  description: V(new), or V(running) when the job has been started before and can be waited for.
  returned: when O(state=prepared)
  type: str
  choices: [new, running]
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
    name:
      description: What its log and record are called.
      type: str
      sample: rank0
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
import socket
import struct
import sys
import tarfile
import time
from typing import Any, BinaryIO

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import local_code, systemd, users
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.efa import fabric_environment, missing_for_efa
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.worker_metadata.metadata import parse_metadata
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import (
    Host,
    Launcher,
    Process,
    Program,
    hostfile,
    hostfile_path,
    port,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.registry import LAUNCHERS

METADATA = "/opt/deeplearning/metadata.json"

# The group is the job's user's, who may add files. The sticky bit keeps them from replacing those of the owner.
SHARED_DIRECTORY = 0o1775

# linux/sockios.h
SIOCGIFADDR = 0x8915

SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["checked", "prepared", "started", "stopped"], "default": "started"},
        "directory": {"type": "path"},
        "script": {"type": "str"},
        "command": {"type": "list", "elements": "str", "default": []},
        "source": {"type": "str"},
        "repository": {"type": "str"},
        "version": {"type": "str"},
        "exclude": {"type": "list", "elements": "str"},
        "sync_directory": {"type": "str"},
        "arguments": {"type": "list", "elements": "str", "default": []},
        "environment": {"type": "dict", "default": {}},
        "secrets": {"type": "dict", "default": {}, "no_log": True},
        "key": {"type": "str", "no_log": True},
        "launcher": {"type": "str", "default": "torchrun"},
        "launcher_options": {"type": "dict", "default": {}},
        "python": {"type": "path", "default": "/opt/pytorch/bin/python"},
        "user": {"type": "str", "default": users.NAME},
        "sandbox": {"type": "bool", "default": True},
        "hosts": {
            "type": "list",
            "elements": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "address": {"type": "str", "required": True},
                "number": {"type": "int", "required": True},
                "gpus": {"type": "list", "elements": "int", "required": True},
                "interface": {"type": "str", "required": True},
                "efa": {"type": "bool", "default": False},
            },
        },
        "gpus": {"type": "list", "elements": "int"},
        "processes_per_host": {"type": "int", "default": 0},
        "time_limit": {"type": "int", "default": 0},
        "stop_timeout": {"type": "int", "default": 30},
        "heartbeat_timeout": {"type": "int", "default": 60},
        "generation": {"type": "str"},
        "efa": {"type": "bool"},
        "archive": {"type": "path"},
        "code": {"type": "dict", "default": {}},
    },
    "mutually_exclusive": [("source", "repository")],
    "required_if": [
        ("state", "prepared", ("directory",)),
        ("state", "started", ("directory", "hosts")),
    ],
}


class RefusalError(Exception):
    """This host cannot run the job; the text says why and what to do."""


EXPECTED = (RefusalError, local_code.DirectoryError, ValueError, systemd.UnitError)


def check(params: dict[str, Any]) -> None:
    """Check what needs no host, and put defaults into the launcher's options. Raises RefusalError, ValueError."""
    records.check_name(params["name"])
    if not (params["script"] or params["command"]):
        raise RefusalError("script is missing: name the training script, or a command")
    find_launcher(params)


def prepare(module: AnsibleModule, paths: records.Paths) -> dict[str, Any]:
    """Check the host, and unpack the code if this is the host that got it. Raises RefusalError, UserError, FailedWorkError."""
    params = module.params
    user = users.ensure(module.run_command, params["user"], make=not module.check_mode)
    if params["sandbox"] and systemd.hidden(params["python"]):
        check_python(params)
    place = open_sync_directory(params, paths, None)
    found: dict[str, Any] = users.as_user(user, lambda: examine(module, paths, place), EXPECTED)
    unpack = bool(params["archive"]) and found["job_state"] == "new"
    if unpack and not module.check_mode:
        install_code(params, paths, user)
    return {"changed": unpack, **found, "job_directory": paths.directory}


def examine(module: AnsibleModule, paths: records.Paths, place: int | None) -> dict[str, Any]:
    """Return what the job's user finds on this host. Raises RefusalError for what the user cannot use."""
    params = module.params
    metadata = read_metadata(params["generation"])
    host = describe_host(metadata, params["gpus"], bool(params["efa"]))
    if host.efa:
        missing = missing_for_efa(module.run_command)
        if missing:
            raise RefusalError(f"{host.name} has EFA and cannot use it: {missing}")
    if not (params["sandbox"] and systemd.hidden(params["python"])):
        check_python(params)
    if len(metadata["workers"]) > 1 and local_code.mount_point(paths.directory) == "/":
        raise RefusalError("directory {!r} is on this host's own disk: jobs need storage that all hosts share".format(params["directory"]))
    if place is not None:
        local_code.check_contents(params["sync_directory"], place)
    return {"host": host._asdict(), "job_state": check_job(params["name"], paths, params["heartbeat_timeout"])}


def check_python(params: dict[str, Any]) -> None:
    """Raises RefusalError when this process cannot run the job's Python."""
    if not params["command"] and not os.access(params["python"], os.X_OK):
        raise RefusalError(
            "python {!r} is not there, or user {!r} cannot run it: name the Python that has the framework".format(
                params["python"], params["user"]
            )
        )


def open_sync_directory(params: dict[str, Any], paths: records.Paths, user: pwd.struct_passwd | None) -> int | None:
    """Return a descriptor of the sync_directory, if the job has one and it exists or, with a user, is made. Raises DirectoryError."""
    if not params["sync_directory"]:
        return None
    local_code.check_directory(params["sync_directory"], paths.directory)
    return local_code.open_directory(params["sync_directory"], user)


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


def find_launcher(params: dict[str, Any]) -> Launcher:
    """Return the launcher, and put defaults into its options. Raises RefusalError for an unknown launcher or option."""
    name = params["launcher"]
    if name not in LAUNCHERS:
        raise RefusalError("launcher {!r} is unknown: use one of {}".format(name, ", ".join(sorted(LAUNCHERS))))
    validation = ArgumentSpecValidator(dict(LAUNCHERS[name].options)).validate(params["launcher_options"])
    if validation.error_messages:
        raise RefusalError("launcher_options of {}: {}".format(name, "; ".join(validation.error_messages)))
    params["launcher_options"] = validation.validated_parameters
    return LAUNCHERS[name]


def describe_host(metadata: dict[str, Any], gpus: list[int] | None, efa: bool) -> Host:
    """Return this host from its metadata. Raises RefusalError when no interface has the address or it lacks one of the GPUs."""
    present = list(range(metadata["gpu_count"]))
    missing = sorted(set(gpus or []) - set(present))
    if missing:
        raise RefusalError(f"gpus {missing} are not on this host, which has {len(present)}")
    worker = next(worker for worker in metadata["workers"] if worker["number"] == metadata["number"])
    for _unused, name in socket.if_nameindex():
        if interface_address(name) == worker["address"]:
            return Host(worker["name"], worker["address"], worker["number"], present if gpus is None else sorted(set(gpus)), name, efa)
    raise RefusalError("no network interface of this host has its address {}".format(worker["address"]))


def interface_address(interface: str) -> str:
    """Return the interface's IPv4 address, or nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])


def check_job(name: str, paths: records.Paths, heartbeat_timeout: int) -> str:
    """Return C(new) or C(running). Raises RefusalError for a job that has ended, because its results would be mixed with another's."""
    problems: list[str] = []
    found = records.read_records(paths, problems)
    if problems:
        raise RefusalError(f"job {name} may have run, but {problems[0]}: choose another name")
    if not found:
        return "new"
    now = time.time()
    processes = [{**record, "state": records.process_state(record, now, heartbeat_timeout)} for record in found]
    states = {process["state"] for process in processes}
    # Where one process has failed and others go on, waiting for the job finds that out and the rest can be stopped.
    if len(processes) < processes[0]["processes"] or states & {records.RUNNING, records.LOST}:
        return "running"
    state = records.job_state(processes)
    raise RefusalError(f"job {name} has already run ({state}) and its results are in {paths.directory}: choose another name")


def install_code(params: dict[str, Any], paths: records.Paths, user: pwd.struct_passwd) -> None:
    """Unpack the code and describe the job, as the login user, and make the directories that the job writes to, as the job's user.

    The job's user can add files to the job's directory and to those of the code, and cannot change or replace what is there.
    """
    with open(params["archive"], "rb") as archive:
        owner = pwd.getpwuid(os.fstat(archive.fileno()).st_uid)
        shared = owner.pw_uid != user.pw_uid
        users.as_user(owner, lambda: unpack_code(params, paths, archive, shared), EXPECTED, group=user.pw_gid if shared else None)
    users.as_user(user, lambda: make_directories(paths))


def unpack_code(params: dict[str, Any], paths: records.Paths, source: BinaryIO, shared: bool) -> None:
    """Make the job's directory with its code and description. A job of this name that never started is replaced."""
    os.makedirs(paths.directory, exist_ok=True)
    job = os.open(paths.directory, local_code.OPEN)
    try:
        if os.fstat(job).st_uid != os.geteuid():
            raise RefusalError(f"directory {paths.directory!r} belongs to another user: choose another name for the job")
        os.fchmod(job, 0o755)  # until all is there that the job's user must not make first
        records.delete([paths.code, paths.description])
        os.mkdir(paths.code)
        with tarfile.open(fileobj=source) as archive:
            # Python 3.14 would else change modes by itself.
            archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
            archive.extractall(paths.code, members=(readable(member, shared) for member in archive))
        keys = ("name", "script", "command", "arguments", "launcher", "launcher_options", "python", "time_limit", "sync_directory", "code")
        description = {key: params[key] for key in keys}
        description["created"] = time.time()
        with open(os.open(paths.description, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8") as file:
            json.dump(description, file, indent=2)
        if shared:
            os.chmod(paths.code, SHARED_DIRECTORY)
            os.fchown(job, -1, os.getegid())  # older ones may have another group
            os.fchmod(job, SHARED_DIRECTORY)
    finally:
        os.close(job)


def readable(member: tarfile.TarInfo, shared: bool) -> tarfile.TarInfo:
    """Return an entry of the code as it is to be unpacked. What the owner may read is for the group too, where that is the job's user's."""
    member.uid, member.gid = os.geteuid(), os.getegid()
    member.mode &= 0o777  # whoever made the code is not to run programs as who unpacks it
    if shared:
        member.mode = (member.mode & 0o755) | (member.mode & 0o500) >> 3
        if member.isdir():
            member.mode |= SHARED_DIRECTORY & 0o1770
    return member


def make_directories(paths: records.Paths) -> None:
    """Make the directories that a job writes to."""
    for directory in (paths.logs, paths.status, paths.checkpoints, paths.tensorboard):
        os.makedirs(directory, exist_ok=True)


def plan(params: dict[str, Any], paths: records.Paths, own_number: int) -> list[dict[str, Any]]:
    """Return the supervisor's specs for the processes of the host with that number. Raises LaunchError, RefusalError."""
    hosts = sorted((Host(**host) for host in params["hosts"]), key=lambda host: host.number)
    own = [host.name for host in hosts if host.number == own_number]
    if not own:
        raise RefusalError(f"this host is number {own_number}, which is not among the job's hosts")
    script = (params["script"] or "") if params["source"] or params["repository"] else os.path.basename(params["script"] or "")
    code = params["sync_directory"] or paths.code
    launcher = find_launcher(params)
    program = Program(
        job=params["name"],
        python=params["python"],
        script=os.path.join(code, script),
        arguments=params["arguments"],
        processes_per_host=params["processes_per_host"],
        options=params["launcher_options"],
        command=params["command"],
    )
    processes = [complete(process) for process in launcher.plan(program, hosts)]
    fabric = fabric_environment(hosts)
    shared = {
        "job": params["name"],
        "directory": paths.directory,
        "cwd": code,
        "programs": os.path.dirname(params["python"]),
        "processes": len(processes),
        "lead": processes[0].name,
        "daemons": daemons(params, processes, hosts),
        "key": params["key"],
        "hostfile": hostfile(program, hosts),
        "own_profile": not params["sandbox"],
        **{key: params[key] for key in ("time_limit", "stop_timeout", "heartbeat_timeout")},
    }
    gpus = {host.name: list(host.gpus) for host in hosts}
    return [
        {**shared, **make_spec(params, paths, process, fabric), "gpus": gpus[process.host]} for process in processes if process.host in own
    ]


def daemons(params: dict[str, Any], processes: list[Process], hosts: list[Host]) -> dict[str, dict[str, Any]]:
    """Return where the processes listen that run what other hosts ask for, by the names of their hosts. Raises RefusalError."""
    addresses = {host.name: host.address for host in hosts}
    found = {
        process.host: {"address": addresses[process.host], "port": port(params["name"], process.name)}
        for process in processes
        if not process.argv
    }
    if found and not params["key"]:
        raise RefusalError("key is missing: launcher {!r} needs the same random text on all hosts".format(params["launcher"]))
    return found


def complete(process: Process) -> Process:
    """Return a process of a launcher with the name and the ranks of one that is a rank itself, unless it says otherwise."""
    ranks = [process.rank] if process.ranks is None else list(process.ranks)
    return process._replace(name=process.name or f"rank{process.rank}", ranks=ranks)


def make_spec(params: dict[str, Any], paths: records.Paths, process: Process, fabric: dict[str, str]) -> dict[str, Any]:
    """Return what the supervisor needs to know about one process beside what is the same for all of the job."""
    own = {name: str(value) for name, value in {**params["environment"], **params["secrets"]}.items()}
    general = {
        "DEEPLEARNING_JOB": params["name"],
        "DEEPLEARNING_JOB_DIRECTORY": paths.directory,
        "DEEPLEARNING_CHECKPOINT_DIRECTORY": paths.checkpoints,
        "DEEPLEARNING_TENSORBOARD_DIRECTORY": paths.tensorboard,
        "DEEPLEARNING_PROGRESS": paths.progress,
        "DEEPLEARNING_HOSTFILE": hostfile_path(params["name"], process.name),
        "PYTHONUNBUFFERED": "1",
    }
    return {
        **process._asdict(),
        "environment": {**general, **fabric, **process.environment, **own},
    }


def start(module: AnsibleModule, paths: records.Paths) -> dict[str, Any]:
    """Start this host's processes unless they run. Raises LaunchError, RefusalError, UnitError, UserError, FailedWorkError."""
    params = module.params
    name = params["name"]
    user = users.ensure(module.run_command, params["user"], make=not module.check_mode)
    metadata = read_metadata(params["generation"])
    specs = plan(params, paths, metadata["number"])
    with systemd.exclusive():
        active = systemd.active_units(module.run_command, name)
        if not active:
            check_place(name, specs)
        if not active and not module.check_mode:
            code = open_sync_directory(params, paths, user)
            users.as_user(user, lambda: occupy(params, paths, specs, code), EXPECTED)
            systemd.make_devices(module.run_command, metadata["gpu_count"])
            hindrance = systemd.refuse_nfs(module.run_command, user)
            if hindrance:
                module.warn(
                    f"Processes of user {user.pw_name!r} can speak NFS themselves, and so read and write all of an EFS file system:"
                    f" {hindrance}. Install nftables on this host."
                )
            place = systemd.Place(user, sys.executable, visible_paths(params, paths, user) if params["sandbox"] else None)
            systemd.start(module.run_command, name, place, specs)
    processes = [
        {
            **{key: spec[key] for key in ("rank", "name", "argv")},
            "unit": records.unit_name(name, spec["name"]),
            "log": paths.log(spec["name"]),
        }
        for spec in specs
    ]
    return {"changed": not active, "processes": processes, "job_directory": paths.directory}


def occupy(params: dict[str, Any], paths: records.Paths, specs: list[dict[str, Any]], code: int | None) -> None:
    """Take the job's directories for its processes on this host, as the user who runs them. Raises RefusalError, DirectoryError."""
    status = os.stat(paths.status)
    if status.st_uid != os.geteuid():
        raise RefusalError(
            f"user {params['user']!r}: has uid {os.geteuid()} on this host and uid {status.st_uid} on the first one."
            " Name a user whose uid is the same on all hosts."
        )
    for spec in specs:
        if os.path.lexists(paths.record(spec["name"])):
            raise RefusalError("{} of job {} has already run: choose another name".format(records.title(spec["name"]), params["name"]))
    if code is not None:
        local_code.check_contents(params["sync_directory"], code)
        local_code.copy(paths.code, code)


def visible_paths(params: dict[str, Any], paths: records.Paths, user: pwd.struct_passwd) -> systemd.Visible:
    """Return what the processes need and may find in home directories."""
    interpreters = [params["python"], os.path.realpath(params["python"]), sys.executable, os.path.realpath(sys.executable)]
    return systemd.Visible(
        read=[os.path.dirname(os.path.dirname(path)) for path in interpreters],
        write=[user.pw_dir, params["sync_directory"] or "/", local_code.mount_point(paths.directory)],
    )


def check_place(name: str, specs: list[dict[str, Any]]) -> None:
    """Raises RefusalError when another job uses the GPUs of one of the processes or runs where its code would be."""
    for spec in specs:
        for other in systemd.other_jobs(name):
            shared = sorted(set(spec["gpus"]) & set(other["gpus"]))
            if shared:
                raise RefusalError(
                    "job {} uses GPU {} of {}: wait for its end, stop it, or give each job its own gpus".format(
                        other["job"], ", ".join(str(gpu) for gpu in shared), spec["host"]
                    )
                )
            if local_code.overlap(spec["cwd"], other["cwd"]):
                raise RefusalError(
                    "job {} runs in {} on {}: wait for its end, stop it, or give each job its own sync_directory".format(
                        other["job"], other["cwd"], spec["host"]
                    )
                )


def stop(module: AnsibleModule) -> dict[str, Any]:
    """End this host's processes. Raises UnitError when one is left."""
    name = module.params["name"]
    running = bool(systemd.active_units(module.run_command, name) or systemd.processes(name))
    if running and not module.check_mode:
        systemd.stop(module.run_command, name)
    if not module.check_mode:
        systemd.remove_shared_memory(name)
    return {"changed": running, "running": [job for job in systemd.running_jobs(module.run_command) if job != name]}


def main() -> None:
    os.umask(0o022)  # on hardened hosts it would hide from the jobs' user what is made here
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    state = module.params["state"]
    try:
        if state == "stopped":
            records.check_name(module.params["name"])
            module.exit_json(**stop(module))
        check(module.params)
        if state == "checked":
            module.exit_json(changed=False)
        paths = records.Paths(os.path.join(module.params["directory"], module.params["name"]))
        module.exit_json(**(prepare(module, paths) if state == "prepared" else start(module, paths)))
    except (*EXPECTED, users.UserError, users.FailedWorkError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
