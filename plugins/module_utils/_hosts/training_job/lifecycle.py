# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Starts and stops a job's processes on this host."""

from __future__ import annotations

import os
import pwd
import sys
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import checkpoints, local_code, systemd, users
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.host import read_metadata
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.prepare import open_sync_directory
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.processes import plan
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.specification import EXPECTED, RefusalError
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.documents import Spec


def start(module: AnsibleModule, paths: records.Paths) -> dict[str, Any]:
    """Start this host's processes unless they are running. Raises LaunchError, RefusalError, UnitError, UserError, FailedWorkError."""
    params = module.params
    name = params["name"]
    user = users.ensure(module.run_command, params["user"], make=not module.check_mode)
    metadata = read_metadata(params["metadata_directory"], params["generation"])
    if params["resume"]:
        place = users.as_user(user, lambda: checkpoints.directory(params, paths), EXPECTED)
        params["environment"] = {**params["environment"], checkpoints.VARIABLE: place}
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
                    f"Processes of user {user.pw_name!r} can use NFS directly, because NFS could not be blocked: {hindrance}. So they"
                    " can read and write everything on an EFS file system. Install nftables on this host."
                )
            place = systemd.Place(user, sys.executable, visible_paths(params, paths, user) if params["sandbox"] else None)
            systemd.start(module.run_command, name, place, specs)
    processes = [
        {
            "rank": spec["rank"],
            "name": spec["name"],
            "argv": spec["argv"],
            "unit": records.unit_name(name, spec["name"]),
            "log": paths.log(spec["name"]),
        }
        for spec in specs
    ]
    return {"changed": not active, "processes": processes, "job_directory": paths.directory}


def occupy(params: dict[str, Any], paths: records.Paths, specs: list[Spec], code: int | None) -> None:
    """As the job's user, check that the processes can start on this host, and copy the code to sync_directory.

    Raises RefusalError, DirectoryError.
    """
    status = os.stat(paths.status)
    if status.st_uid != os.geteuid():
        raise RefusalError(
            f"user {params['user']!r} has uid {os.geteuid()} on this host and uid {status.st_uid} on the first host."
            " Specify a user with the same uid on all hosts."
        )
    for spec in specs:
        if os.path.lexists(paths.record(spec["name"])):
            raise RefusalError("{} of job {} has already run. Choose another name.".format(records.title(spec["name"]), params["name"]))
    if code is not None:
        local_code.check_contents(params["sync_directory"], code)
        local_code.copy(paths.code, code)


def visible_paths(params: dict[str, Any], paths: records.Paths, user: pwd.struct_passwd) -> systemd.Visible:
    """Return the paths that the processes may read or write even if the paths are inside home directories."""
    interpreters = [params["python"], os.path.realpath(params["python"]), sys.executable, os.path.realpath(sys.executable)]
    return systemd.Visible(
        read=[os.path.dirname(os.path.dirname(path)) for path in interpreters],
        write=[user.pw_dir, params["sync_directory"] or "/", local_code.mount_point(paths.directory)],
    )


def check_place(name: str, specs: list[Spec]) -> None:
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


def stop(module: AnsibleModule) -> dict[str, Any]:
    """Stop this host's processes. Raises UnitError if a process is still running."""
    name = module.params["name"]
    running = bool(systemd.active_units(module.run_command, name) or systemd.processes(name))
    if running and not module.check_mode:
        systemd.stop(module.run_command, name)
    if not module.check_mode:
        systemd.remove_shared_memory(name)
    return {"changed": running, "running": [job for job in systemd.running_jobs(module.run_command) if job != name]}
