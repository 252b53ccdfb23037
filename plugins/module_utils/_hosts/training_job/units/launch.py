# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Starts a job's processes on this host. This code also runs on hosts without Ansible, when a queue starts a job."""

from __future__ import annotations

import json
import os
import pwd
import sys
import time
from typing import Any, Callable, Sequence

from ...._job import directories, jobs_after_reboot, naming
from ...._job.definition.refusal import EXPECTED, RefusalError
from ...._job.documents import ProcessSpec
from . import local_code, systemd, users

# A function, such as AnsibleModule.warn, that shows a warning.
Warn = Callable[[str], None]

CHECKPOINTS = "DEEPLEARNING_CHECKPOINT_DIRECTORY"


def start_processes(
    run: users.RunCommand,
    warn: Warn,
    params: dict[str, Any],
    paths: directories.Paths,
    user: pwd.struct_passwd,
    specs: Sequence[ProcessSpec],
    gpu_count: int,
) -> None:
    """Start the processes that the specs describe. The caller holds exclusive(), and the job has no active units on this host.

    `gpu_count` is the number of GPUs of this host. Raises RefusalError, UnitError, UserError or FailedWorkError.
    """
    check_place(params["name"], specs)
    problem = about_checkpoints(specs, len(params["hosts"]))
    if problem:
        warn(problem)
    make_metrics_directory(params["metrics_directory"], user)
    code = open_sync_directory(params, paths, user)
    users.as_user(user, lambda: occupy(params, paths, specs, code), EXPECTED)
    systemd.make_devices(run, gpu_count)
    hindrance = systemd.refuse_nfs(run, user)
    if hindrance:
        warn(
            f"Processes of user {user.pw_name!r} can use NFS directly, because NFS could not be blocked: {hindrance}. Therefore, these "
            "processes can read and write everything on an EFS file system. Install nftables on this host."
        )
    place = systemd.SupervisorAccount(user, sys.executable, visible_paths(params, paths, user), params["sandbox"])
    jobs_after_reboot.delete_ended()
    if specs and params["reboot"] and params["restarts"]:
        save(params["name"], place, specs, time.time())
    systemd.start(run, params["name"], place, specs)


def save(job: str, place: systemd.SupervisorAccount, specs: Sequence[ProcessSpec], began: float) -> None:
    """Write how, and when, the job's processes were started on this host to a file in memory that only root can read, for rejoin.py."""
    document = {
        "user": place.user.pw_name,
        "python": place.python,
        "visible": place.visible,
        "is_sandboxed": place.is_sandboxed,
        "specs": specs,
        "began": began,
    }
    jobs_after_reboot.write(jobs_after_reboot.STARTED, job, json.dumps(document).encode())


def open_sync_directory(params: dict[str, Any], paths: directories.Paths, user: pwd.struct_passwd | None) -> int | None:
    """Return a file descriptor of the job's sync_directory, or None if the option is not set or the directory does not exist.

    If `user` is specified, the directory is created if necessary. Raises RefusalError.
    """
    if not params["sync_directory"]:
        return None
    local_code.check_directory(params["sync_directory"], paths.directory)
    return local_code.open_directory(params["sync_directory"], user)


def occupy(params: dict[str, Any], paths: directories.Paths, specs: Sequence[ProcessSpec], code: int | None) -> None:
    """As the job's user, check that the processes can start and write metrics on this host, and copy the code to sync_directory.

    Raises RefusalError.
    """
    status = os.stat(paths.of_attempt(1).status)
    if status.st_uid != os.geteuid():
        raise RefusalError(
            f"user {params['user']!r} has uid {os.geteuid()} on this host and uid {status.st_uid} on the first host."
            " Specify a user with the same uid on all hosts."
        )
    place = params["metrics_directory"]
    if place and not os.access(place, os.W_OK | os.X_OK):
        raise RefusalError(
            f"metrics_directory: user {params['user']!r} cannot write to {place!r}. Make this user the owner of the directory, or use a"
            " directory that does not exist yet."
        )
    for spec in specs:
        if os.path.lexists(paths.record(spec["name"])):
            raise RefusalError("{} of job {} has already run. Choose another name.".format(naming.title(spec["name"]), params["name"]))
    if code is not None:
        local_code.check_contents(params["sync_directory"], code)
        local_code.copy(paths.code, code)


def make_metrics_directory(path: str | None, user: pwd.struct_passwd) -> None:
    """Create the directory for the metrics of jobs, unless it exists, and make the user its owner. Raises RefusalError."""
    descriptor = local_code.open_directory(path, user, "metrics_directory") if path else None
    if descriptor is not None:
        os.close(descriptor)


def visible_paths(params: dict[str, Any], paths: directories.Paths, user: pwd.struct_passwd) -> systemd.Visible:
    """Return the paths that the processes may read or write even if the paths are inside home directories or in /tmp."""
    places = [params["sync_directory"], params["metrics_directory"]]
    interpreters = [params["python"], os.path.realpath(params["python"]), sys.executable, os.path.realpath(sys.executable)]
    return systemd.Visible(
        read=[os.path.dirname(os.path.dirname(path)) for path in interpreters],
        write=[user.pw_dir, local_code.storage_of_jobs(paths.directory), paths.directory, *filter(None, places)],
    )


def about_checkpoints(specs: Sequence[ProcessSpec], host_count: int) -> str:
    """Return a warning if the hosts of a job would have different checkpoints, or an empty string. All processes use one directory."""
    place = specs[0]["environment"].get(CHECKPOINTS, "") if specs else ""
    if not os.path.isabs(place) or host_count < 2 or not local_code.is_own_disk(place, specs[0]["directory"]):
        return ""
    return (
        f"{CHECKPOINTS}: {place!r} is on each host's own disk, so a host sees only its own checkpoints, and a new host sees none. "
        "Specify a directory on shared storage."
    )


def check_place(name: str, specs: Sequence[ProcessSpec]) -> None:
    """Raise RefusalError if another job uses the GPUs or the directory of one of the processes."""
    for spec in specs:
        for other in systemd.other_jobs(name):
            shared = sorted(set(spec["gpus"]) & set(other["gpus"]))
            if shared:
                raise RefusalError(
                    "job {} uses GPU {} of {}. Wait until that job ends, stop it, or give each job its own gpus.".format(
                        other["job"], ", ".join(str(gpu) for gpu in shared), spec["host"]
                    )
                )
            if local_code.overlap(spec["cwd"], other["cwd"]):
                raise RefusalError(
                    "job {} runs in {} on {}. Wait until that job ends, stop it, or give each job its own sync_directory.".format(
                        other["job"], other["cwd"], spec["host"]
                    )
                )
