# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Starts and stops the processes of a job on this host as transient systemd units, one slice per job."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import inspect
import io
import json
import os
import pathlib
import pwd
import re
import shlex
import shutil
import time
import zipfile
from typing import Iterator, NamedTuple, Sequence, cast

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import remote, supervisor
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.users import Run
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import documents, records, schema, states
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.documents import Spec, StartedProcess
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import (
    JOB_NAME,
    PROCESS_NAME,
    read_json,
    runtime_directory,
    slice_name,
    title,
    unit_name,
    write_json,
)

# The modules that run on hosts without Ansible.
PROGRAM = (documents, records, remote, schema, states, supervisor)

# More than the supervisor's own wait between SIGTERM and SIGKILL: systemd acts only where the supervisor hangs.
SYSTEMD_EXTRA_STOP_SECONDS = 10

PROPERTIES = (
    # RDMA pins the memory it transfers from: EFA needs this.
    "LimitMEMLOCK=infinity",
    "LimitNOFILE=1048576",
    # More than data loaders and their threads are. What all units of a host may have together is the limit of SLICE.
    "TasksMax=65536",
    # A data loader killed for memory is the training script's to notice; the unit ends when its main process does.
    "OOMPolicy=continue",
    # SIGTERM goes to the supervisor, which passes it on once; whatever is left afterwards gets SIGKILL.
    "KillMode=mixed",
    # At shutdown the job ends first, so that its last checkpoint and record find the shared storage.
    "After=remote-fs.target",
    "RuntimeDirectoryMode=0700",
)


# Of the shared memory of all jobs of a host. The size is a limit, not a reservation; what is above it, and the memory of more files,
# is left for root.
SHARED_MEMORY_OPTIONS = "mode=0755,size=90%,nr_inodes=1048576"


class UnitError(Exception):
    """systemd refused; the text says what it was asked and what it answered."""


# None of them needs a system call filter, which slows processes down on older kernels (spec_store_bypass_disable=seccomp). Devices,
# shared memory and the network are the host's, for GPUs and EFA; namespaces and debuggers work.
# By the system's bus a user may have logind start a manager (enable-linger), which runs what the job has written at home, without limits.
SANDBOX = (
    "NoNewPrivileges=yes",
    "ProtectSystem=full",
    "ProtectControlGroups=yes",
    "ProtectHome=tmpfs",
    "InaccessiblePaths=-/run/dbus",
    "InaccessiblePaths=-/run/systemd/private",
)

# Of all jobs of a host together. The slices of jobs are its children.
SLICE, SLICE_PROPERTIES = "deeplearning.slice", ("TasksMax=80%",)

# A mount target believes the user that a client names. 2049 is its port; the others are of tunnels to it on this host
# (port_range_lower_bound and port_range_upper_bound of /etc/amazon/efs/efs-utils.conf). The kernel's own connections have no user.
NFS_RULES = """
add table inet deeplearning
add set inet deeplearning job_users {{ type uid; }}
add element inet deeplearning job_users {{ {uid} }}
add chain inet deeplearning output {{ type filter hook output priority 0; }}
flush chain inet deeplearning output
add rule inet deeplearning output meta skuid @job_users tcp dport {{ 2049, 20049-20449 }} reject
"""

# What ProtectHome hides.
HOMES = ("/home", "/root", "/run/user")

STARTED = "/run/deeplearning/started"
"""Root's own notes of the processes that it has started: their other files are the job's user's."""

# Seconds that a run waits for another one which starts units.
PATIENCE = 120.0


class Visible(NamedTuple):
    """Directories that processes find although home directories are hidden."""

    read: Sequence[str]
    write: Sequence[str]


class Place(NamedTuple):
    """Who runs a job's processes here and with which Python (of the supervisor). Without `visible` they are not sandboxed."""

    user: pwd.struct_passwd
    python: str
    visible: Visible | None


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Let one run at a time check for a job's units and start them: two controllers may start the same job at once.

    Raises UnitError when another one takes too long.
    """
    end = time.monotonic() + PATIENCE
    with open(os.open(records.LOCK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8") as lock:
        os.fchmod(lock.fileno(), 0o600)  # who could open it could keep everybody waiting
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise UnitError(f"another run has held {records.LOCK} for {PATIENCE:.0f} s. Wait until it ends, or stop it.") from None
                time.sleep(0.1)
        yield


def hidden(path: str) -> bool:
    """Return whether sandboxed processes do not see a path unless it is made visible."""
    return (os.path.normpath(path) + "/").startswith(tuple(home + "/" for home in HOMES))


def sandbox(visible: Visible) -> list[str]:
    """Return the properties of a unit that is kept from gaining privileges and from looking into other home directories."""
    found = list(SANDBOX)
    for setting, paths in (("BindPaths", visible.write), ("BindReadOnlyPaths", visible.read)):
        for path in sorted(set(paths)):
            if hidden(path) and os.path.isdir(path):
                # Spaces and colons end a path there.
                found.append("{}={}".format(setting, re.sub(r"([\\:\s'\"])", r"\\\1", path)))
    return found


def make_devices(run: Run, gpu_count: int) -> None:
    """Make the device files of GPUs. CUDA would have a setuid program make them, which NoNewPrivileges keeps from that."""
    if gpu_count and not os.path.exists("/dev/nvidia-uvm") and shutil.which("nvidia-modprobe"):
        run(["nvidia-modprobe", "-u", "-c=0"])


def refuse_nfs(run: Run, user: pwd.struct_passwd) -> str:
    """Keep the user's processes from speaking NFS themselves, until this host restarts. Return why that cannot be done, or `""`."""
    nft = shutil.which("nft", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if nft is None:
        return "the package nftables is missing"
    status, _unused, error = run([nft, NFS_RULES.format(uid=user.pw_uid)])
    return error.strip() if status else ""


def start(run: Run, job: str, place: Place, specs: Sequence[Spec]) -> None:
    """Start the job's processes on this host, described by supervisor's specs. Raises UnitError."""
    memory = _shared_memory(run, job, place.user)
    status, _unused, error = run(["systemctl", "set-property", "--runtime", SLICE, *SLICE_PROPERTIES])
    if status:
        raise UnitError(f"systemctl set-property {SLICE} failed: {error.strip()}")
    # All before the first is started: a process that finds itself the last one of the job here empties the job's shared memory.
    for spec in specs:
        _install(runtime_directory(job, spec["name"]), place, spec)
    try:
        for spec in specs:
            _start_unit(run, job, place, spec, memory)
    except UnitError:
        active = active_units(run, job)
        for spec in specs:
            if unit_name(job, spec["name"]) not in active:
                _delete(runtime_directory(job, spec["name"]))
        raise


def _start_unit(run: Run, job: str, place: Place, spec: Spec, memory: str) -> None:
    name = spec["name"]
    directory = runtime_directory(job, name)
    program = os.path.join(directory, "supervisor")
    command = ["systemd-run", "--quiet", "--collect", "--service-type=exec"]
    command += ["--unit=" + unit_name(job, name), "--slice=" + slice_name(job), "--uid=" + place.user.pw_name]
    command += [f"--description=Training job {job}: {title(name)}"]
    for setting in (
        *PROPERTIES,
        *(sandbox(place.visible) if place.visible else ()),
        f"BindPaths={memory}:/dev/shm",
        "RuntimeDirectory=" + os.path.relpath(directory, "/run"),
        "TimeoutStopSec={}".format(spec["stop_timeout"] + SYSTEMD_EXTRA_STOP_SECONDS),
        f"ExecStopPost=/bin/sh {program} finish",
    ):
        command.append("--property=" + setting)
    status, _unused, error = run([*command, "/bin/sh", program, "run"])
    if status:
        raise UnitError(f"systemd-run could not start {unit_name(job, name)}: {error.strip()}")


def _shared_memory(run: Run, job: str, user: pwd.struct_passwd) -> str:
    """Make the job's /dev/shm on this host, remove those of jobs that are gone, and return where it is. Raises UnitError.

    Not the host's own, where logind deletes a user's files at the end of their last login (RemoveIPC), under the feet of data loaders
    and NCCL. One for all processes of the job: NCCL takes one with another /dev/shm for another machine's, and reaches it over the network.
    """
    if not os.path.ismount(records.SHARED_MEMORY):
        os.makedirs(records.SHARED_MEMORY, mode=0o755, exist_ok=True)
        status, _unused, error = run(["mount", "-t", "tmpfs", "-o", SHARED_MEMORY_OPTIONS, "tmpfs", records.SHARED_MEMORY])
        if status:
            raise UnitError(f"cannot mount a tmpfs at {records.SHARED_MEMORY}: {error.strip()}")
    for other in os.listdir(records.SHARED_MEMORY):
        if not records.runtime_directories(other):
            _delete(records.shared_memory(other))
    directory = records.shared_memory(job)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    os.chown(directory, user.pw_uid, user.pw_gid, follow_symlinks=False)
    return directory


def _delete(directory: str) -> None:
    # What cannot be deleted is no reason not to start or stop another job.
    with contextlib.suppress(OSError):
        records.delete([directory])


def _install(directory: str, place: Place, spec: Spec) -> None:
    """Write the supervisor and its spec where the user alone can read them: the environment may hold secrets."""
    user = place.user
    os.makedirs(os.path.dirname(directory), mode=0o755, exist_ok=True)
    os.makedirs(STARTED, mode=0o700, exist_ok=True)
    note: StartedProcess = {"job": spec["job"], "gpus": spec["gpus"], "cwd": spec["cwd"]}
    write_json(os.path.join(STARTED, os.path.basename(directory) + ".json"), note)
    _delete(directory)
    os.mkdir(directory, 0o700)
    archive, spec_path = os.path.join(directory, "supervisor.zip"), os.path.join(directory, "spec.json")
    command = f'#!/bin/sh\naction=$1; shift\nexec {shlex.quote(place.python)} {archive} "$action" {spec_path} "$@"\n'
    contents = {
        "supervisor.zip": program(),
        "supervisor": command.encode(),
        "spec.json": json.dumps(spec).encode(),
        "hostfile": spec["hostfile"].encode(),
    }
    for name, content in contents.items():
        path = os.path.join(directory, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        os.chown(path, user.pw_uid, user.pw_gid)
    os.chown(directory, user.pw_uid, user.pw_gid)


def program() -> bytes:
    """Return the supervisor as a zip file that Python runs, with its modules under the names they have here."""
    modules = {module.__name__.replace(".", "/") + ".py": inspect.getsource(module) for module in PROGRAM}
    for package in {str(parent) for name in modules for parent in pathlib.PurePath(name).parents if parent.name}:
        modules[package + "/__init__.py"] = ""
    modules["__main__.py"] = f"import sys\nfrom {supervisor.__name__} import main\nsys.exit(main(sys.argv[1:]))\n"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in modules.items():
            archive.writestr(name, source)
    return content.getvalue()


def other_jobs(job: str) -> list[StartedProcess]:
    """Return the `job`, `gpus` and `cwd` of the processes of other jobs on this host, and forget those that have ended."""
    found = []
    for path in glob.glob(os.path.join(STARTED, "*.json")):
        note = read_json(path)
        name = os.path.basename(path)[: -len(".json")]
        runs = os.path.isdir(os.path.join(os.path.dirname(runtime_directory(job, "")), name))
        if not note or set(note) != set(StartedProcess.__annotations__) or not runs:
            os.unlink(path)
        elif note["job"] != job:
            found.append(cast(StartedProcess, note))
    return found


def active_units(run: Run, job: str) -> list[str]:
    """Return the names of the job's services on this host that have not ended. Raises UnitError."""
    pattern = re.compile(re.escape(f"deeplearning-{job}-") + PROCESS_NAME.pattern + r"\.service")
    command = ["systemctl", "list-units", "--plain", "--no-legend", "--full", "--type=service"]
    status, output, error = run([*command, "--state=active,activating,deactivating,reloading"])
    if status:
        raise UnitError(f"systemctl list-units failed: {error.strip()}")
    names = [line.split()[0] for line in output.splitlines() if line.strip()]
    return sorted(name for name in names if pattern.fullmatch(name))


def running_jobs(run: Run) -> list[str]:
    """Return the jobs with a service on this host that has not ended. Raises UnitError."""
    # Asked of the services: systemd keeps a slice active after the last of them. Names of jobs come from slices, which have no other part.
    status, output, error = run(["systemctl", "show", "--property=Slice,ActiveState", "deeplearning-*.service"])
    if status:
        raise UnitError(f"systemctl show failed: {error.strip()}")
    jobs = set()
    for unit in output.split("\n\n"):
        properties = dict(line.partition("=")[::2] for line in unit.splitlines())
        name = re.fullmatch(r"deeplearning-(.+)\.slice", properties.get("Slice", ""))
        if name and properties.get("ActiveState") not in ("inactive", "failed"):
            jobs.add(name[1].replace("_", "-"))
    return sorted(job for job in jobs if JOB_NAME.fullmatch(job))


def stop(run: Run, job: str) -> None:
    """End every process of the job on this host and prove that none is left. Raises UnitError."""
    status, _unused, error = run(["systemctl", "stop", slice_name(job)])
    left = processes(job)
    if left:
        listing = ", ".join(str(pid) for pid in left)
        raise UnitError(f"processes of job {job} are still there: {listing} {error.strip()}".strip())
    if status:
        raise UnitError(f"systemctl stop {slice_name(job)} failed: {error.strip()}")


def remove_shared_memory(job: str) -> None:
    """Delete the job's shared memory on this host. Its processes do so themselves unless they are killed."""
    if not records.runtime_directories(job):
        _delete(records.shared_memory(job))


def processes(job: str) -> list[int]:
    """Return the ids of all processes in the job's slice, whoever their parent is."""
    component = f"/{slice_name(job)}/"
    found = []
    for path in glob.glob("/proc/[0-9]*/cgroup"):
        try:
            with open(path, encoding="utf-8") as file:
                if any(component in line.strip() + "/" for line in file):
                    found.append(int(path.split("/")[2]))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return sorted(found)
