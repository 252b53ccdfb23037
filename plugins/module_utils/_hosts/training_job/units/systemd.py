# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Starts and stops the processes of a job on this host as transient systemd units. Each job has a slice."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import pwd
import re
import shlex
import shutil
from typing import TYPE_CHECKING, Mapping, NamedTuple, Sequence, cast

from ...._job import directories
from ...._job.directories import runtime_directory
from ...._job.documents import ProcessSpec, StartedProcess
from ...._job.naming import JOB_NAME, JOBS_SLICE, PROCESS_NAME, slice_name, title, unit_name
from ...._job.records import read_json, write_json
from ... import programs
from ...transient_units import RunCommand, TransientUnit, UnitError, systemctl

if TYPE_CHECKING:
    # Ansible copies only modules that are imported to hosts. This process reads the supervisor's source code, and need not run it.
    from ..run import supervisor  # noqa: F401

SUPERVISOR = "_hosts.training_job.run.supervisor"

# Seconds to add to the supervisor's own wait between SIGTERM and SIGKILL, so that systemd sends SIGKILL only if the supervisor hangs.
SYSTEMD_EXTRA_STOP_SECONDS = 10

# Seconds to add to the time in which a supervisor ends after the job's time limit, so that systemd stops the unit only if the supervisor
# does not, for example because the script has suspended it.
SYSTEMD_EXTRA_RUNTIME_SECONDS = 30

PROPERTIES = (
    # EFA needs unlimited locked memory, because RDMA pins the memory that it transfers.
    "LimitMEMLOCK=infinity",
    "LimitNOFILE=1048576",
    # This limit is higher than what data loaders and their threads need. SLICE limits all units on a host together.
    "TasksMax=65536",
    # If the OOM killer kills a data loader, the training script must handle the loss. The unit ends only when its main process ends.
    "OOMPolicy=continue",
    # SIGTERM goes only to the supervisor, which forwards it. Processes that remain get SIGKILL.
    "KillMode=mixed",
    # At shutdown, jobs end before the shared storage is unmounted, so that they can write their last checkpoints and records.
    "After=remote-fs.target",
    # At shutdown, systemd-user-sessions.service stops before jobs stop, and creates the file by which a supervisor in the sandbox
    # recognizes a shutdown.
    "Before=systemd-user-sessions.service",
    "RuntimeDirectoryMode=0700",
)


# Mount options for the shared memory of all jobs on a host. The limits on size and number of files leave memory for root.
# The limits reserve no memory.
SHARED_MEMORY_OPTIONS = "mode=0755,size=90%,nr_inodes=1048576"


MUNGE_DIRECTORY = "/run/munge"
UVM_DEVICE = "/dev/nvidia-uvm"  # exists once CUDA or nvidia-modprobe has loaded the kernel module

# None of these settings needs a system call filter, which would slow down processes on older kernels (spec_store_bypass_disable=seccomp).
# Jobs use the host's devices, shared memory and network, for GPUs and EFA. Namespaces and debuggers still work.
# The system bus is hidden because a job could request a user manager from logind there (enable-linger). Such a manager would run files
# from the user's home directory without the job's limits. MUNGE is hidden because a job could use it to submit a job to Slurm, which would
# run without these limits.
SANDBOX = (
    "NoNewPrivileges=yes",
    "ProtectSystem=full",
    "ProtectControlGroups=yes",
    "ProtectHome=tmpfs",
    "InaccessiblePaths=-/run/dbus",
    "InaccessiblePaths=-/run/systemd/private",
    f"InaccessiblePaths={MUNGE_DIRECTORY}",
)

# The slice for all jobs on a host. Each job has a child slice.
SLICE, SLICE_PROPERTIES = JOBS_SLICE, ("TasksMax=80%",)

# A mount target trusts the user ID that a client sends, so jobs must not connect to it. Mount targets use port 2049. The other ports belong
# to tunnels on this host (port_range_lower_bound and port_range_upper_bound in /etc/amazon/efs/efs-utils.conf). Connections of the kernel
# itself belong to no user and are not affected.
NFS_RULES = """
add table inet deeplearning
add set inet deeplearning job_users {{ type uid; }}
add element inet deeplearning job_users {{ {uid} }}
add chain inet deeplearning output {{ type filter hook output priority 0; }}
flush chain inet deeplearning output
add rule inet deeplearning output meta skuid @job_users tcp dport {{ 2049, 20049-20449 }} reject
"""

# The directories that the unit property ProtectHome hides.
HOMES = ("/home", "/root", "/run/user")

# The directories in place of which each job has its own, besides /dev/shm.
TEMPORARY = ("/tmp", "/var/tmp")

# The directory in which root describes the processes that it has started. The processes' other files belong to the job's user.
STARTED = "/run/deeplearning/started"


class Visible(NamedTuple):
    """Directories that processes can read or write, even inside /tmp and /var/tmp, and inside home directories, which the sandbox hides."""

    read: Sequence[str]
    write: Sequence[str]


class SupervisorAccount(NamedTuple):
    """The user who runs a job's processes, the Python interpreter that runs the supervisors, and what the processes can access."""

    user: pwd.struct_passwd
    python: str
    visible: Visible
    is_sandboxed: bool


def hidden(path: str, places: Sequence[str] = HOMES) -> bool:
    """Return whether a path is inside places that are hidden by default. The sandbox hides home directories."""
    return (os.path.normpath(path) + "/").startswith(tuple(place + "/" for place in places))


def sandbox(visible: Visible) -> list[str]:
    """Return unit properties that prevent a unit from gaining privileges and from reading home directories outside the visible paths.

    Also creates MUNGE's directory, because only directories that exist can be hidden, and MUNGE may be started later.
    """
    os.makedirs(MUNGE_DIRECTORY, mode=0o755, exist_ok=True)
    return [*SANDBOX, *bindings(visible, HOMES)]


def bindings(visible: Visible, places: Sequence[str]) -> list[str]:
    """Return unit properties that show those visible paths that are inside hidden places."""
    return [
        # An unescaped space or colon would end the path.
        "{}={}".format(setting, re.sub(r"([\\:\s'\"])", r"\\\1", path))
        for setting, paths in (("BindPaths", visible.write), ("BindReadOnlyPaths", visible.read))
        for path in sorted(set(paths))
        if hidden(path, places) and path not in TEMPORARY and os.path.isdir(path)
    ]


def make_devices(run: RunCommand, gpu_count: int) -> None:
    """Create the device files of GPUs, because NoNewPrivileges prevents CUDA from creating them with a setuid program. Raises UnitError."""
    if gpu_count and not os.path.exists(UVM_DEVICE) and shutil.which("nvidia-modprobe"):
        _unused, _output, error = run(["nvidia-modprobe", "-u", "-c=0"])
        if not os.path.exists(UVM_DEVICE):
            raise UnitError(
                f"nvidia-modprobe has not created {UVM_DEVICE}, without which CUDA cannot use a GPU: {error.strip() or 'no message'}. "
                "Install the NVIDIA driver for the kernel of this host."
            )


def refuse_nfs(run: RunCommand, user: pwd.struct_passwd) -> str:
    """Block NFS connections of the user's processes until this host restarts. Return the error, or an empty string on success."""
    nft = shutil.which("nft", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if nft is None:
        return "the package nftables is missing"
    status, _unused, error = run([nft, NFS_RULES.format(uid=user.pw_uid)])
    return error.strip() if status else ""


def start(run: RunCommand, job: str, place: SupervisorAccount, specs: Sequence[ProcessSpec], action: str = "run") -> None:
    """Start the job's processes on this host as the specs describe. `action` is an action of the supervisor's program. Raises UnitError."""
    private = _private_directories(run, job, place.user)
    systemctl(run, "set-property", "--runtime", SLICE, *SLICE_PROPERTIES)
    # Create all directories before the first start: a unit that ends and finds no other directories of its job empties the shared memory.
    for spec in specs:
        _install(runtime_directory(job, spec["name"]), place, spec)
    try:
        for spec in specs:
            _start_unit(run, job, place, spec, private, action)
    except UnitError:
        active = active_units(run, job)
        for spec in specs:
            if unit_name(job, spec["name"]) not in active:
                _delete(runtime_directory(job, spec["name"]))
        raise


def _start_unit(run: RunCommand, job: str, place: SupervisorAccount, spec: ProcessSpec, private: Mapping[str, str], action: str) -> None:
    name = spec["name"]
    directory = runtime_directory(job, name)
    program = os.path.join(directory, "supervisor")
    properties = [
        "Slice=" + slice_name(job),
        "User=" + place.user.pw_name,
        *PROPERTIES,
        *(sandbox(place.visible) if place.is_sandboxed else ()),
        *(f"BindPaths={directory}:{path}" for path, directory in private.items()),
        *bindings(place.visible, TEMPORARY),
        "RuntimeDirectory=" + os.path.relpath(directory, "/run"),
        "TimeoutStopSec={}".format(spec["parameters"]["stop_timeout"] + SYSTEMD_EXTRA_STOP_SECONDS),
        f"RuntimeMaxSec={longest_runtime(spec)}",
        f"ExecStopPost=/bin/sh {program} finish",
    ]
    description = f"Training job {job}: {title(name)}"
    TransientUnit(unit_name(job, name), description, ["/bin/sh", program, action], properties).start(run)


def longest_runtime(spec: ProcessSpec) -> str:
    """Return the time, in systemd's format, after which systemd stops a unit of the job. See `Supervisor.attend`."""
    params = spec["parameters"]
    if not params["time_limit"]:
        return "infinity"
    rest = max(0, params["time_limit"] - spec["elapsed"])
    return str(rest + params["stop_timeout"] + params["heartbeat_timeout"] + SYSTEMD_EXTRA_RUNTIME_SECONDS)


def _private_directories(run: RunCommand, job: str, user: pwd.struct_passwd) -> dict[str, str]:
    """Create the job's directories in place of /dev/shm, /tmp and /var/tmp on this host. Delete those of jobs that have ended.

    The host's own /dev/shm is not safe: when a user's last login session ends, logind deletes that user's files there (RemoveIPC), even
    if data loaders and NCCL use the files. In /tmp, a job would find the locks, sockets and addresses that a killed process has left.

    All processes of the job share the directories. With separate directories, NCCL would treat the processes as if they ran on different
    machines, and they would communicate over the network. Raises UnitError.
    """
    if not os.path.ismount(directories.SHARED_MEMORY):
        os.makedirs(directories.SHARED_MEMORY, mode=0o755, exist_ok=True)
        status, _unused, error = run(["mount", "-t", "tmpfs", "-o", SHARED_MEMORY_OPTIONS, "tmpfs", directories.SHARED_MEMORY])
        if status:
            raise UnitError(f"cannot mount a tmpfs at {directories.SHARED_MEMORY}: {error.strip()}")
    found = directories.private_directories(job)
    try:
        _make(directories.TEMPORARY, 0o755, os.geteuid(), os.getegid())
        for other in {*os.listdir(directories.SHARED_MEMORY), *os.listdir(directories.TEMPORARY)}:
            remove_private_directories(other)
        # Only the job's user can reach the directories, and only root can replace them.
        _make(os.path.join(directories.TEMPORARY, job), 0o710, os.geteuid(), user.pw_gid)
        for path, directory in found.items():
            _make(directory, 0o1777 if path in TEMPORARY else 0o700, user.pw_uid, user.pw_gid)
    except OSError as error:
        raise UnitError(f"cannot create the job's directory for temporary files: {error}") from error
    return found


def _make(directory: str, mode: int, uid: int, gid: int) -> None:
    os.makedirs(directory, exist_ok=True)
    os.chown(directory, uid, gid, follow_symlinks=False)
    os.chmod(directory, mode)


def _delete(directory: str) -> None:
    # Ignore files that cannot be deleted, so that other jobs can still start and stop.
    with contextlib.suppress(OSError):
        directories.delete([directory])


def _install(directory: str, place: SupervisorAccount, spec: ProcessSpec) -> None:
    """Write the supervisor and its spec to files that only the user can read, because the environment may contain secrets."""
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
        "supervisor.zip": programs.compiled(SUPERVISOR),
        "supervisor": command.encode(),
        "spec.json": json.dumps(spec).encode(),
        "hostfile": spec["hostfile"].encode(),
    }
    write_files(directory, contents, user)


def write_files(directory: str, contents: Mapping[str, bytes], user: pwd.struct_passwd) -> None:
    """Write new files to a directory that belongs to root, and make the user the owner of the files and the directory.

    Only the user can read the files.
    """
    for name, content in contents.items():
        path = os.path.join(directory, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        os.chown(path, user.pw_uid, user.pw_gid)
    os.chown(directory, user.pw_uid, user.pw_gid)


def other_jobs(job: str) -> list[StartedProcess]:
    """Return the descriptions of other jobs' processes on this host. Delete the descriptions of processes that have ended."""
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


def active_units(run: RunCommand, job: str) -> list[str]:
    """Return the names of the job's services that are still active on this host. Raises UnitError."""
    pattern = re.compile(re.escape(f"deeplearning-{job}-") + PROCESS_NAME.pattern + r"\.service")
    states = "--state=active,activating,deactivating,reloading"
    output = systemctl(run, "list-units", "--plain", "--no-legend", "--full", "--type=service", states)
    names = [line.split()[0] for line in output.splitlines() if line.strip()]
    return sorted(name for name in names if pattern.fullmatch(name))


def running_jobs(run: RunCommand) -> list[str]:
    """Return the jobs that have an active service on this host. Raises UnitError."""
    # Check the services instead of slices, because a slice stays active after its last service has ended. Derive the job names from the
    # slice names, because the names of services also contain the names of processes.
    jobs = set()
    for unit in systemctl(run, "show", "--property=Slice,ActiveState", "deeplearning-*.service").split("\n\n"):
        properties = dict(line.partition("=")[::2] for line in unit.splitlines())
        name = re.fullmatch(r"deeplearning-(.+)\.slice", properties.get("Slice", ""))
        if name and properties.get("ActiveState") not in ("inactive", "failed"):
            jobs.add(name[1].replace("_", "-"))
    return sorted(job for job in jobs if JOB_NAME.fullmatch(job))


def stop(run: RunCommand, job: str) -> None:
    """Stop all processes of the job on this host and check that none remains. Raises UnitError."""
    status, _unused, error = run(["systemctl", "stop", slice_name(job)])
    left = processes(job)
    if left:
        listing = ", ".join(str(pid) for pid in left)
        raise UnitError(f"processes of job {job} are still running: {listing} {error.strip()}".strip())
    if status:
        raise UnitError(f"systemctl stop {slice_name(job)} failed: {error.strip()}")


def remove_private_directories(job: str) -> None:
    """Delete the private directories on this host of a job that has ended.

    The job's units empty these directories but do not delete them, and killed units may leave files in them.
    """
    if not directories.runtime_directories(job):
        _delete(os.path.join(directories.SHARED_MEMORY, job))
        _delete(os.path.join(directories.TEMPORARY, job))


def processes(job: str) -> list[int]:
    """Return the IDs of all processes in the job's slice, regardless of their parents."""
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
