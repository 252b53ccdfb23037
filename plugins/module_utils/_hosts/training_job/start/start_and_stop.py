# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Starts and stops a job's processes on this host."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ...._job import directories, jobs_after_reboot, naming
from ...._job.definition.host_processes import plan
from ... import transient_units
from ..queue import hold, submission
from ..units import checkpoint_directory, launch, systemd, users
from ..units.host import read_metadata
from . import continuation


def start(module: AnsibleModule, paths: directories.Paths) -> dict[str, Any]:
    """Start this host's processes unless they are running. Raises LaunchError, RefusalError, UnitError, UserError or FailedWorkError."""
    params = module.params
    name = params["name"]
    user = users.ensure(module.run_command, params["user"], make=not module.check_mode)
    metadata = read_metadata(params["metadata_directory"], params["generation"])
    checkpoint_directory.keep_directory(params, paths, user)
    paths = paths.of_attempt(params["attempt"])
    specs = plan(params, paths, metadata["number"])
    with transient_units.exclusive():
        active = systemd.active_units(module.run_command, name)
        if not active and module.check_mode:
            launch.check_place(name, specs)
        elif not active:
            if paths.attempt > 1:
                users.as_user(user, lambda: continuation.begin_attempt(paths, params["heartbeat_timeout"]))
            launch.start_processes(module.run_command, module.warn, params, paths, user, specs, metadata["gpu_count"])
    processes = [
        {
            "rank": spec["rank"],
            "name": spec["name"],
            "argv": spec["argv"],
            "unit": naming.unit_name(name, spec["name"]),
            "log": paths.log(spec["name"]),
        }
        for spec in specs
    ]
    return {"changed": not active, "processes": processes, "job_directory": paths.directory}


def stop(module: AnsibleModule) -> dict[str, Any]:
    """Stop this host's processes, and cancel the job if it is in a queue.

    Raises QueueError, and UnitError if a process is still running.
    """
    name = module.params["name"]
    running = bool(systemd.active_units(module.run_command, name) or systemd.processes(name))
    queued = hold.read_job(hold.directory(name))
    if running and not module.check_mode:
        systemd.stop(module.run_command, name)
    if queued and not module.check_mode:
        submission.leave(module.run_command, queued)
        systemd.stop(module.run_command, name)  # stops processes that the queue may have started in the meantime
        directories.delete([queued.directory])
    if not module.check_mode:
        systemd.remove_private_directories(name)
        jobs_after_reboot.delete_ended_unless_starting()
    return {"changed": running or bool(queued), "running": [job for job in systemd.running_jobs(module.run_command) if job != name]}
