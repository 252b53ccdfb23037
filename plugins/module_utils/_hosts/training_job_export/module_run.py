# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Implements one run of the `training_job_export` module: starts the export if necessary, and waits until one export pass ends."""

from __future__ import annotations

import os
import pwd
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..._common.shared_storage import mounts
from ..._job import directories, document_schemas, job_states, naming, records, schema
from ..._job.documents import Export
from ..._job.state_names import FAILED, LOST, RUNNING, WAITING
from .. import transient_units
from ..training_job.units import local_code, users
from . import unit
from .exporter import PLAN_FILES, ExportSpec, is_over
from .selection import KEY_LIMIT

ARGUMENTS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "directory": {"type": "path", "required": True},
    "destination": {"type": "str"},
    "include": {"type": "list", "elements": "str", "default": []},
    "exclude": {"type": "list", "elements": "str", "default": ["/*.tmp", "/.*", "checkpoints/*.tmp", "checkpoints/.*"]},
    "checkpoint_count": {"type": "int", "default": 0},
    "interval": {"type": "int", "default": 0},
    "region": {"type": "str"},
    "state": {"type": "str", "choices": ["started", "standby", "present"], "default": "present"},
    "attempt": {"type": "int", "default": 1},
    "standby": {"type": "int", "default": 1},
    "user": {"type": "str", "default": naming.DEFAULT_USER},
    "heartbeat_timeout": {"type": "int", "default": 60},
    "since": {"type": "float", "default": 0.0},
    "wait": {"type": "int", "default": 5},
}
POLL_SECONDS = 0.5
# What the exporter prints about a plan. The exporter runs as the job's user, so a process of the job can change this output.
PLAN = {
    **{name: schema.integer(0, 1 << 62) for name in ("files", "size", "uploaded", "uploaded_size", "omitted_count")},
    "omitted": document_schemas.EXPORT["omitted"],
    "keys": schema.list_of(schema.text(KEY_LIMIT), PLAN_FILES),
}
SHOWN = ("files", "size", "uploaded", "uploaded_size", "changing")
# The directory in which root records the last destination of each job on this host. A job can write anything into its own files.
DESTINATIONS = "/var/lib/deeplearning-exports"


class ExportError(Exception):
    """The job cannot be exported. The message states the reason and the remedy."""


def work_on(module: AnsibleModule) -> dict[str, Any]:
    """Return the result of the module. Raises ExportError, UnitError, UserError, FailedWorkError, OSError or ValueError."""
    params, run = module.params, module.run_command
    paths = directories.Paths(os.path.join(params["directory"], naming.check_name(params["name"])))
    user = job_user(module, paths)
    spec = make_spec(module, paths, user)
    destination = spec["destination"]
    if module.check_mode:
        return {"finished": True, "destination": destination, **plan(module, spec, user)}
    schema.replace_document(destination_path(params["name"]), {"destination": destination, "created": created(paths, user)})
    since = params["since"]
    if params["state"] == "standby":
        with transient_units.exclusive():
            is_new = unit.state(run, params["name"]) != "active"
            if is_new:
                unit.start(run, params["name"], spec, user)
        return {"finished": True, "changed": is_new, "destination": destination}
    if not since:
        since = time.time()
        with transient_units.exclusive():
            if unit.state(run, params["name"]) != "active":
                unit.start(run, params["name"], spec, user)
            elif params["state"] == "started":
                return {"finished": True, "changed": False, "destination": destination}
            else:
                users.as_user(user, lambda: request(paths))
    return {"since": since, "destination": destination, **wait(module, paths, user, spec, since)}


def job_user(module: AnsibleModule, paths: directories.Paths) -> pwd.struct_passwd:
    """Return the user of a job, who must own its logs. Raises ExportError or UserError.

    The owner of the logs does not determine the user: root on any node can change the owner of files on shared storage, and could then make
    other nodes read files as any of their users.
    """
    try:
        owner = os.lstat(paths.logs).st_uid
    except FileNotFoundError:
        raise ExportError(
            f"job {os.path.basename(paths.directory)!r} does not exist in {os.path.dirname(paths.directory)}. To list the jobs, run the"
            " playbook deeplearning.cluster.status."
        ) from None
    user = users.ensure(module.run_command, module.params["user"], make=not module.check_mode)  # a new host lacks the default user
    if user.pw_uid == 0:
        raise ExportError("training_job_user: jobs never run as root. Set training_job_user to the job's user.")
    if owner != user.pw_uid:
        raise ExportError(
            f"training_job_user: {paths.logs} belongs to uid {owner}, but user {user.pw_name!r} has uid {user.pw_uid}. Set "
            "training_job_user to the user of the job. If nobody has run the job as another user, check the nodes."
        )
    return user


def make_spec(module: AnsibleModule, paths: directories.Paths, user: pwd.struct_passwd) -> ExportSpec:
    """Return what to export. By default, a job is exported to the same destination as last time on this host. Raises ExportError."""
    params = module.params
    destination = params["destination"]
    if destination:
        mounts.check_bucket_source(destination)
        bucket, prefix = mounts.bucket_and_prefix(destination)
        destination = f"s3://{bucket}/{prefix}{params['name']}/"
    else:
        last = records.read_json(destination_path(params["name"]))
        if not last or last["created"] != created(paths, user):
            raise ExportError(
                "training_job_export: no destination is set, and this host has not exported the job yet. Set training_job_export to "
                "s3://bucket/prefix."
            )
        destination = str(last["destination"])
    return {
        "directory": paths.directory,
        "checkpoints": checkpoint_directory(paths, user),
        "destination": destination,
        "region": params["region"] or "",
        "include": params["include"],
        "exclude": params["exclude"],
        "checkpoint_count": max(0, params["checkpoint_count"]),
        "follow": params["state"] != "present",
        "attempt": params["attempt"],
        "standby": params["standby"] if params["state"] == "standby" else 0,
        "interval": params["interval"],
        "heartbeat_timeout": params["heartbeat_timeout"],
    }


def destination_path(name: str) -> str:
    """Return the path of the file with the destination of the job's last export through this host, and the job's time of creation."""
    return os.path.join(DESTINATIONS, f"{name}.json")


def created(paths: directories.Paths, user: pwd.struct_passwd) -> float:
    """Return when the job was created. After a job was deleted, another job can have its name."""
    return float(users.as_user(user, lambda: records.read_description(paths)["created"]))


def checkpoint_directory(paths: directories.Paths, user: pwd.struct_passwd) -> str:
    """Return the directory of a job's checkpoints.

    Raises ExportError if the directory is neither on shared storage nor the user's own. Root on any node can change job.json, and could
    otherwise export directories on other nodes.
    """
    found = users.as_user(user, lambda: own_or_shared(paths, user.pw_uid))
    if not found["accepted"]:
        raise ExportError(
            f"{paths.description}: the checkpoint_directory {found['path']!a} is neither on shared storage nor a directory of user"
            f" {user.pw_name!r}. Change its owner, or export the checkpoints with the AWS CLI."
        )
    return str(found["path"])


def own_or_shared(paths: directories.Paths, uid: int) -> dict[str, Any]:
    """As the job's user, return the `path` of the job's checkpoints with all links resolved, and whether it is `accepted`."""
    named = records.read_description(paths).get("checkpoint_directory") or paths.checkpoints
    if named == paths.checkpoints or not os.path.isdir(named):  # the exporter ignores a missing directory
        return {"path": paths.checkpoints, "accepted": True}
    path, jobs = os.path.realpath(named), os.path.realpath(os.path.dirname(paths.directory))
    mount = local_code.mount_point(path)
    accepted = os.lstat(path).st_uid == uid or os.path.commonpath([jobs, path]) == jobs
    accepted = accepted or (mount != "/" and (mount == local_code.mount_point(jobs) or local_code.is_shared(mount)))
    return {"path": path, "accepted": accepted}


def request(paths: directories.Paths) -> None:
    """As the job's user, request that the running export start an export pass now."""
    os.close(os.open(paths.export + ".request", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644))


def plan(module: AnsibleModule, spec: ExportSpec, user: pwd.struct_passwd) -> dict[str, Any]:
    """Return what an export would upload. This is the module's result in check mode. Raises ExportError or UnitError."""
    output = unit.plan(module.run_command, module.params["name"], spec, user)
    try:
        found = schema.parse_json(output.encode("utf-8", "replace"))
        if not isinstance(found, dict):
            raise schema.SchemaError("the plan is not a JSON object")
        if isinstance(found.get("error"), str):
            raise ExportError(found["error"])
        found = schema.conform(found, PLAN)
    except ValueError as error:
        raise ExportError(
            f"the export plan of job {module.params['name']} is not valid: {error}. Check the processes of user {user.pw_name!r}."
        ) from None
    keys = found.pop("keys")
    lines = "".join(f"{spec['destination']}{key}\n" for key in keys)
    more = f"and {found['uploaded'] - len(keys)} more\n" if found["uploaded"] > len(keys) else ""
    diff = [{"before_header": "objects", "after_header": "objects", "before": "", "after": lines + more}] if keys else []
    return {"changed": bool(keys), "diff": diff, **found}


def wait(module: AnsibleModule, paths: directories.Paths, user: pwd.struct_passwd, spec: ExportSpec, since: float) -> dict[str, Any]:
    """Wait at most `wait` seconds for the end of an export pass that began after `since`. Return the result of this pass, or the progress
    if the pass has not ended.

    Raises UnitError, and ExportError if the pass failed.
    """
    params, run = module.params, module.run_command
    end = time.monotonic() + params["wait"]
    while True:
        active = unit.state(run, params["name"])
        export: Export | None = users.as_user(user, lambda: job_states.read_export(paths, params["heartbeat_timeout"]))
        if export and export["began"] >= since and "finished" in export and not (export["state"] == WAITING and ended(module, paths, user)):
            return result(module, export)
        check_export(params, user, active, export, since)
        if active != "active":  # the export ended just before it could start the requested pass
            unit.start(run, params["name"], spec, user)
        if time.monotonic() >= end:
            progress = {key: export[key] for key in SHOWN if export and key in export}  # type: ignore[literal-required]
            return {"finished": False, "changed": False, "progress": {**progress, "seconds": int(time.time() - since)}}
        time.sleep(POLL_SECONDS)


def check_export(params: dict[str, Any], user: pwd.struct_passwd, active: str, export: Export | None, since: float) -> None:
    """Check that the export still makes progress. `active` is the state of its unit. Raises ExportError."""
    name = params["name"]
    if active == FAILED or (active != "active" and export and export["state"] == RUNNING):
        raise ExportError(
            f"the export of job {name} ended before it was complete. Read its messages on the host with:"
            f" journalctl -u {unit.name(name, 'export')}. Run the playbook again to continue."
        )
    if active == "active" and time.time() > since + params["heartbeat_timeout"] and (not export or export["state"] == LOST):
        raise ExportError(
            f"the export of job {name} has sent no heartbeat for {params['heartbeat_timeout']} s. A process of user"
            f" {user.pw_name!r} may have suspended the export, or the storage is full. Stop the export with: systemctl kill "
            f"--signal=KILL {unit.name(name, 'export')}. Run the playbook again to continue."
        )


def ended(module: AnsibleModule, paths: directories.Paths, user: pwd.struct_passwd) -> bool:
    """Return whether the job is over. When the job is over, the export that follows it uploads the remaining files and ends."""
    timeout = module.params["heartbeat_timeout"]
    return bool(module.params["state"] == "present" and users.as_user(user, lambda: is_over(paths, timeout)))


def result(module: AnsibleModule, export: Export) -> dict[str, Any]:
    """Return the result of an export pass that has ended.

    If the first pass failed, the export no longer follows the job. Raises ExportError.
    """
    if "error" in export:
        if module.params["state"] == "started":
            unit.stop(module.run_command, module.params["name"])
        raise ExportError(export["error"])
    numbers = {key: export.get(key, 0) for key in (*SHOWN, "omitted_count")}
    return {"finished": True, "changed": bool(numbers["uploaded"]), **numbers, "omitted": export.get("omitted", [])}
