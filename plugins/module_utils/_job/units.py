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
import pwd
import re
import shlex
import shutil
import zipfile
from typing import Any, Callable, Iterator, List, NamedTuple, Tuple

from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records, remote, supervisor
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import (
    PROCESS_NAME,
    read_json,
    runtime_directory,
    slice_name,
    title,
    unit_name,
)

Run = Callable[[List[str]], Tuple[int, str, str]]
"""Runs a command and returns its exit status, output and errors, such as AnsibleModule.run_command."""

# More than the supervisor's own wait between SIGTERM and SIGKILL: systemd only steps in where the supervisor hangs.
SYSTEMD_EXTRA_STOP_SECONDS = 10

PROPERTIES = (
    # RDMA pins the memory it transfers from: EFA needs this.
    "LimitMEMLOCK=infinity",
    "LimitNOFILE=1048576",
    "TasksMax=infinity",
    # A data loader killed for memory is the training script's to notice; the unit ends when its main process does.
    "OOMPolicy=continue",
    # SIGTERM goes to the supervisor, which passes it on once; whatever is left afterwards gets SIGKILL.
    "KillMode=mixed",
    # At shutdown the job ends first, so that its last checkpoint and record find the shared storage.
    "After=remote-fs.target",
    "RuntimeDirectoryMode=0700",
)


class UnitError(Exception):
    """systemd refused; the text says what it was asked and what it answered."""


class Place(NamedTuple):
    """Who runs a job's processes here and with which Python (of the supervisor)."""

    user: str
    python: str


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Let one run at a time look for a job's units and start them: two controllers may be given the same job at once."""
    with open(records.LOCK, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start(run: Run, job: str, place: Place, spec: dict[str, Any]) -> None:
    """Start one process of the job, described by a supervisor's spec. Raises UnitError."""
    name = spec["name"]
    directory = runtime_directory(job, name)
    _install(directory, pwd.getpwnam(place.user), place.python, spec)
    program = os.path.join(directory, "supervisor")
    memory = _shared_memory(run, job)
    command = ["systemd-run", "--quiet", "--collect", "--service-type=exec"]
    command += ["--unit=" + unit_name(job, name), "--slice=" + slice_name(job), "--uid=" + place.user]
    command += [f"--description=Training job {job}: {title(name)}"]
    for setting in (
        *PROPERTIES,
        f"BindPaths={memory}:/dev/shm",
        "RuntimeDirectory=" + os.path.relpath(directory, "/run"),
        "TimeoutStopSec={}".format(spec["stop_timeout"] + SYSTEMD_EXTRA_STOP_SECONDS),
        f"ExecStopPost=/bin/sh {program} finish",
    ):
        command.append("--property=" + setting)
    status, _unused, error = run([*command, "/bin/sh", program, "run"])
    if status:
        shutil.rmtree(directory, ignore_errors=True)
        raise UnitError(f"systemd-run could not start {unit_name(job, name)}: {error.strip()}")


def _shared_memory(run: Run, job: str) -> str:
    """Make the job's /dev/shm on this host, remove those of jobs that are gone, and return where it is. Raises UnitError.

    Not the host's own, where logind deletes a user's files at the end of their last login (RemoveIPC), under the feet of data loaders
    and NCCL. One for all processes of the job: NCCL takes one with another /dev/shm for another machine's, and reaches it over the network.
    """
    if not os.path.ismount(records.SHARED_MEMORY):
        os.makedirs(records.SHARED_MEMORY, mode=0o755, exist_ok=True)
        # The size is a limit, not a reservation.
        options = "mode=0755,size=100%,nr_inodes=0"
        status, _unused, error = run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", records.SHARED_MEMORY])
        if status:
            raise UnitError(f"cannot mount a tmpfs at {records.SHARED_MEMORY}: {error.strip()}")
    for other in os.listdir(records.SHARED_MEMORY):
        if not records.runtime_directories(other):
            shutil.rmtree(records.shared_memory(other), ignore_errors=True)
    directory = records.shared_memory(job)
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o1777)
    return directory


def _install(directory: str, user: pwd.struct_passwd, python: str, spec: dict[str, Any]) -> None:
    """Write the supervisor and its spec where the user alone can read them: the environment may hold secrets."""
    os.makedirs(os.path.dirname(directory), mode=0o755, exist_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    os.mkdir(directory, 0o700)
    archive, spec_path = os.path.join(directory, "supervisor.zip"), os.path.join(directory, "spec.json")
    command = f'#!/bin/sh\naction=$1; shift\nexec {shlex.quote(python)} {archive} "$action" {spec_path} "$@"\n'
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
    modules = {module.__name__.replace(".", "/") + ".py": inspect.getsource(module) for module in (records, remote, supervisor)}
    package = os.path.dirname(next(iter(modules)))
    while package:
        modules[package + "/__init__.py"] = ""
        package = os.path.dirname(package)
    modules["__main__.py"] = f"import sys\nfrom {supervisor.__name__} import main\nsys.exit(main(sys.argv[1:]))\n"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in modules.items():
            archive.writestr(name, source)
    return content.getvalue()


def other_jobs(job: str) -> list[dict[str, Any]]:
    """Return the specs of the processes of other jobs on this host."""
    specs = [read_json(path) for path in glob.glob(os.path.join(os.path.dirname(runtime_directory(job, "")), "*", "spec.json"))]
    return [spec for spec in specs if spec and spec["job"] != job]


def active_units(run: Run, job: str) -> list[str]:
    """Return the names of the job's services on this host that have not ended. Raises UnitError."""
    pattern = re.compile(re.escape(f"deeplearning-{job}-") + PROCESS_NAME.pattern + r"\.service")
    command = ["systemctl", "list-units", "--plain", "--no-legend", "--full", "--type=service"]
    status, output, error = run([*command, "--state=active,activating,deactivating,reloading"])
    if status:
        raise UnitError(f"systemctl list-units failed: {error.strip()}")
    names = [line.split()[0] for line in output.splitlines() if line.strip()]
    return sorted(name for name in names if pattern.fullmatch(name))


def stop(run: Run, job: str) -> None:
    """End every process of the job on this host and prove that none is left. Raises UnitError."""
    status, _unused, error = run(["systemctl", "stop", slice_name(job)])
    left = processes(job)
    if left:
        listing = ", ".join(str(pid) for pid in left)
        raise UnitError(f"processes of job {job} are still there: {listing} {error.strip()}".strip())
    if status:
        raise UnitError(f"systemctl stop {slice_name(job)} failed: {error.strip()}")


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
