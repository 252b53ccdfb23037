# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Implements one run of the module `training_job_export`: starts the export if necessary, and waits for a pass of it."""

from __future__ import annotations

import json
import os
import pwd
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage import mounts
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import systemd, users
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_export import unit
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_export.exporter import Spec, is_over
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.documents import Export
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.states import FAILED, RUNNING, WAITING

ARGUMENTS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "directory": {"type": "path", "required": True},
    "destination": {"type": "str"},
    "include": {"type": "list", "elements": "str", "default": []},
    "exclude": {"type": "list", "elements": "str", "default": ["*.tmp", ".*"]},
    "interval": {"type": "int", "default": 0},
    "region": {"type": "str"},
    "state": {"type": "str", "choices": ["started", "present"], "default": "present"},
    "heartbeat_timeout": {"type": "int", "default": 60},
    "since": {"type": "float", "default": 0.0},
    "wait": {"type": "int", "default": 5},
}
POLL_SECONDS = 0.5
SHOWN = ("files", "size", "uploaded", "uploaded_size", "changing")


class ExportError(Exception):
    """The job cannot be exported. The message states the reason and the remedy."""


def work_on(module: AnsibleModule) -> dict[str, Any]:
    """Return the result of the module. Raises ExportError, UnitError, UserError, FailedWorkError, OSError, ValueError."""
    params, run = module.params, module.run_command
    paths = records.Paths(os.path.join(params["directory"], records.check_name(params["name"])))
    user = job_user(module, paths)
    spec = make_spec(module, paths, user)
    destination = spec["destination"]
    if module.check_mode:
        return {"finished": True, "destination": destination, **plan(module, spec, user)}
    since = params["since"]
    if not since:
        since = time.time()
        with systemd.exclusive():
            if unit.state(run, params["name"]) != "active":
                unit.start(run, params["name"], spec, user)
            elif params["state"] == "started":
                return {"finished": True, "changed": False, "destination": destination}
            else:
                users.as_user(user, lambda: request(paths))
    return {"since": since, "destination": destination, **wait(module, paths, user, spec, since)}


def job_user(module: AnsibleModule, paths: records.Paths) -> pwd.struct_passwd:
    """Return the user of a job, who owns its logs. Raises ExportError, UserError."""
    try:
        if os.lstat(paths.logs).st_uid == users.ID:
            return users.ensure(module.run_command, users.NAME, make=not module.check_mode)  # a new host lacks this user
        user = users.owner(paths.logs)
    except FileNotFoundError:
        raise ExportError(
            f"job {os.path.basename(paths.directory)!r} does not exist in {os.path.dirname(paths.directory)}. To list the jobs, run the"
            " playbook deeplearning.cluster.status."
        ) from None
    if user.pw_uid == 0:
        raise ExportError(f"{paths.logs} belongs to root, but jobs never run as root. Change its owner to the job's user.")
    return user


def make_spec(module: AnsibleModule, paths: records.Paths, user: pwd.struct_passwd) -> Spec:
    """Return what to export. By default, a job is exported to its last destination. Raises ExportError."""
    params = module.params
    destination = params["destination"]
    if destination:
        mounts.check_bucket_source(destination)
        bucket, prefix = mounts.bucket_and_prefix(destination)
        destination = f"s3://{bucket}/{prefix}{params['name']}/"
    else:
        export: Export | None = users.as_user(user, lambda: records.read_export(paths, params["heartbeat_timeout"]))
        if not export:
            raise ExportError(
                "training_job_export: no destination is set, and the job has not been exported yet. Set it to s3://bucket/prefix."
            )
        destination = export["destination"]
    description = users.as_user(user, lambda: records.read_description(paths))
    return {
        "directory": paths.directory,
        "checkpoints": description.get("checkpoint_directory") or paths.checkpoints,
        "destination": destination,
        "region": params["region"] or "",
        "include": params["include"],
        "exclude": params["exclude"],
        "follow": params["state"] == "started",
        "interval": params["interval"],
        "heartbeat_timeout": params["heartbeat_timeout"],
    }


def request(paths: records.Paths) -> None:
    """As the job's user, ask the running export for a pass now."""
    os.close(os.open(paths.export + ".request", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644))


def plan(module: AnsibleModule, spec: Spec, user: pwd.struct_passwd) -> dict[str, Any]:
    """Return what a run would upload. Raises ExportError, UnitError."""
    found = json.loads(unit.plan(module.run_command, module.params["name"], spec, user))
    if "error" in found:
        raise ExportError(found["error"])
    keys = found.pop("keys")
    lines = "".join(f"{spec['destination']}{key}\n" for key in keys)
    more = f"and {found['uploaded'] - len(keys)} more\n" if found["uploaded"] > len(keys) else ""
    diff = [{"before_header": "objects", "after_header": "objects", "before": "", "after": lines + more}] if keys else []
    return {"changed": bool(keys), "diff": diff, **found}


def wait(module: AnsibleModule, paths: records.Paths, user: pwd.struct_passwd, spec: Spec, since: float) -> dict[str, Any]:
    """Wait at most `wait` seconds for the end of a pass that began after `since`. Return its result or its progress.

    Raises ExportError if the pass failed, UnitError.
    """
    params, run = module.params, module.run_command
    end = time.monotonic() + params["wait"]
    while True:
        active = unit.state(run, params["name"])
        export: Export | None = users.as_user(user, lambda: records.read_export(paths, params["heartbeat_timeout"]))
        if export and export["began"] >= since and "finished" in export and not (export["state"] == WAITING and ended(module, paths, user)):
            return result(module, export)
        if active == FAILED or (active != "active" and export and export["state"] == RUNNING):
            raise ExportError(
                f"the export of job {params['name']} ended before it was complete. Read its messages on the host with:"
                f" journalctl -u {unit.name(params['name'], 'export')}. Run again to continue."
            )
        if active != "active":  # the export that was asked for a pass had just ended
            unit.start(run, params["name"], spec, user)
        if time.monotonic() >= end:
            progress = {key: export[key] for key in SHOWN if export and key in export}  # type: ignore[literal-required]
            return {"finished": False, "changed": False, "progress": {**progress, "seconds": int(time.time() - since)}}
        time.sleep(POLL_SECONDS)


def ended(module: AnsibleModule, paths: records.Paths, user: pwd.struct_passwd) -> bool:
    """Return whether the job is over. Then the export that follows it uploads the rest and ends."""
    timeout = module.params["heartbeat_timeout"]
    return bool(module.params["state"] == "present" and users.as_user(user, lambda: is_over(paths, timeout)))


def result(module: AnsibleModule, export: Export) -> dict[str, Any]:
    """Return the result of a pass that has ended. If the first pass failed, the job is not followed any more. Raises ExportError."""
    if "error" in export:
        if module.params["state"] == "started":
            unit.stop(module.run_command, module.params["name"])
        raise ExportError(export["error"])
    numbers = {key: export.get(key, 0) for key in SHOWN}
    return {"finished": True, "changed": bool(numbers["uploaded"]), **numbers}
