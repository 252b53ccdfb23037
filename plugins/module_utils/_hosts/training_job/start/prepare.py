# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks whether this host can run a job, and unpacks the job's code on the shared storage."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import time
from typing import Any, Sequence

from ansible.module_utils.basic import AnsibleModule

from ...._common.node_health.check import HealthFinding
from ...._common.node_setup import records as node_setup_records
from ...._job import directories, exclusion_after_failures, exclusions, job_states, records
from ...._job.definition.refusal import EXPECTED, RefusalError
from ...._job.documents import ProcessRecord
from ...._job.state_names import LOST, RUNNING, SUCCEEDED
from ...node_health import exclusion_by_checks
from ...node_health.efa import missing_for_efa
from ...node_health.examine import before_job, refusal
from ...node_health.run import Readings
from ..queue import submission
from ..units import checkpoint_directory, local_code, systemd, users
from ..units.host import check_interfaces, check_python, describe_host, read_metadata
from ..units.launch import open_sync_directory
from . import continuation, install_health_service
from .unpack import install_code


def prepare(module: AnsibleModule, paths: directories.Paths) -> dict[str, Any]:
    """Check the host, and unpack the code if it was sent to this host. Raises RefusalError, UserError or FailedWorkError."""
    params = module.params
    check_setup(params["setup_digests"])
    if params["queue"] and params["queue_hosts"]:
        submission.check(module.run_command, params["queue"], params["queue_hosts"], params["metadata_directory"])
    user = users.ensure(module.run_command, params["user"], make=not module.check_mode)
    if params["sandbox"] and systemd.hidden(params["python"]):
        check_python(params)
    with health_checks(params, user.pw_name) as readings:
        if readings:
            # All later steps use the shared storage. This check quickly detects storage that does not respond.
            refuse_unhealthy(module, readings.findings(lambda check: check.per_mount))
        place = open_sync_directory(params, paths, None)
        found: dict[str, Any] = users.as_user(user, lambda: examine(module, paths, place), EXPECTED)
        unpack = bring_code(module, paths, user, found["job_state"])
        excluded = find_exclusions(module, found.pop("failures"), readings)
        if readings and not excluded:
            refuse_unhealthy(module, readings.findings())
    install_checks(module)
    others = sorted({note["job"] for note in systemd.other_jobs(params["name"])})
    queues = [] if params["queue"] else submission.queues_of_host(module.run_command, found["host"]["name"])
    return {"changed": unpack, **found, "excluded": excluded, "job_directory": paths.directory, "other_jobs": others, "queues": queues}


def bring_code(module: AnsibleModule, paths: directories.Paths, user: pwd.struct_passwd, job_state: str) -> bool:
    """Unpack the code of a new job, or check that a job that continues has the same code. Return whether code is unpacked."""
    if job_state == "ended":
        check_continuation(module, paths, user)
    unpack = bool(module.params["archive"]) and job_state == "new"
    if unpack and not module.check_mode:
        install_code(module.params, paths, user)
    return unpack


def check_continuation(module: AnsibleModule, paths: directories.Paths, user: pwd.struct_passwd) -> None:
    """Raise RefusalError if this host cannot continue a job that has ended. The first host has the code."""
    params = module.params
    active = systemd.active_units(module.run_command, params["name"])
    if active:
        raise RefusalError(
            f"job {params['name']} has ended, but {active[0]} is still active on this host. Wait until it has ended, or run stop.yml."
        )
    digest = ""
    if params["archive"]:
        with open(params["archive"], "rb") as archive:
            owner = pwd.getpwuid(os.fstat(archive.fileno()).st_uid)
            digest = users.as_user(owner, lambda: continuation.code_digest(archive), EXPECTED)
    users.as_user(user, lambda: continuation.check_unchanged(params, paths, digest), EXPECTED)


def check_setup(digests: dict[str, str]) -> None:
    """Raise RefusalError if a set-up step has not succeeded on this host."""
    missing = node_setup_records.missing(digests)
    if missing:
        raise RefusalError(
            f"node_setup_steps: {', '.join(missing)} must succeed on this host before a job starts."
            " Run the playbook deeplearning.cluster.configure."
        )


def health_checks(params: dict[str, Any], user: str) -> contextlib.AbstractContextManager[Readings | None]:
    """Start the health checks of this node, which run while the job is prepared."""
    if not params["health_check"]:
        return contextlib.nullcontext()
    return before_job(user, params)


def find_exclusions(module: AnsibleModule, failures: dict[str, float], readings: Readings | None) -> str:
    """Return why jobs must not use this host, or an empty string if they may.

    The exclusions of checks that pass end. Without health checks, the exclusions that checks have made do not count. `failures` contains
    the recorded failures of jobs for which this host was responsible.
    """
    findings = readings.findings() if readings else []

    def changed(memory: exclusions.Memory) -> exclusions.Memory:
        if readings:
            memory = exclusion_by_checks.without_passed(memory, readings.checks, findings)
        return exclusion_after_failures.after_failures(memory, failures, time.time())

    _before, memory = exclusion_by_checks.change(module.params["instance_id"] or "", changed, module.check_mode)
    return exclusions.describe_all(memory.exclusions, module.params["health_check"])


def install_checks(module: AnsibleModule) -> None:
    """Install the service that runs the health checks after a failure of the job, if they are wanted and the job can then be restarted."""
    if module.check_mode or not (module.params["health_check"] and module.params["restarts"]):
        return
    try:
        install_health_service.install(module.run_command, module.params)
    except (OSError, systemd.UnitError) as error:
        module.warn(f"After a failure, the health of this node is not checked, because the checks could not be installed: {error}.")


def refuse_unhealthy(module: AnsibleModule, findings: list[HealthFinding]) -> None:
    """Raise RefusalError if the checks show that this node is unhealthy. A job that is already running here is not affected."""
    reason = refusal(findings)
    if reason and not systemd.active_units(module.run_command, module.params["name"]):
        raise RefusalError(
            f"this node is unhealthy. {reason} To see what to do, run deeplearning.cluster.health. To start the job anyway, set "
            "training_job_health_check to false."
        )


def examine(module: AnsibleModule, paths: directories.Paths, place: int | None) -> dict[str, Any]:
    """Return a description of this host as the job's user sees it. Raises RefusalError if the user cannot run the job on this host."""
    params = module.params
    metadata = read_metadata(params["metadata_directory"], params["generation"])
    host = describe_host(metadata, params["gpus"], bool(params["efa"]))
    check_interfaces(params["environment"], [name for _index, name in socket.if_nameindex()])
    if host.efa:
        missing = missing_for_efa(module.run_command)
        if missing:
            raise RefusalError(f"{host.name} has EFA but cannot use it: {missing}")
    if not (params["sandbox"] and systemd.hidden(params["python"])):
        check_python(params)
    check_shared(params, paths, len(metadata["workers"]))
    if place is not None:
        local_code.check_contents(params["sync_directory"], place)
    state = check_job(params["name"], paths, params["heartbeat_timeout"], params["queue"])
    failures = exclusion_after_failures.read_failures(params["directory"], params["instance_id"] or host.name)
    found: dict[str, Any] = {"host": host._asdict(), "job_state": state, "failures": failures}
    if state == "ended":
        found["attempt"] = records.newest_attempt(paths).attempt + 1
    if state == "new":
        checkpoint_directory.check_resume(params, paths)
    if state != "running":
        found["checkpoint_directory"] = checkpoint_directory.directory(params, paths)
        if params["cost_limit"]:
            found["earlier_node_seconds"] = continuation.earlier_node_seconds(params, paths)
    return found


def check_shared(params: dict[str, Any], paths: directories.Paths, worker_count: int) -> None:
    """Raise RefusalError if the job's directory is on this host's own disk, where the other hosts of the cluster cannot read it."""
    if not params["on_first_host"] and worker_count > 1 and local_code.mount_point(paths.directory) == "/":
        example = next((f", for example {os.path.join(mount, 'jobs')}" for mount in local_code.shared_mounts()), "")
        raise RefusalError(
            f"directory: {params['directory']!r} is on this host's own disk. Specify a directory on shared storage{example}. Without "
            "shared storage, jobs run only on the first host of the cluster. To run the job there, set training_job_hosts: master."
        )


def check_job(name: str, paths: directories.Paths, heartbeat_timeout: int, queue: str | None = None) -> str:
    """Return `new`, `running`, or `ended` if the job has ended and can be continued.

    Raises RefusalError if the job has ended and cannot be continued, because a new run would mix new and old results.
    """
    problems: list[str] = []
    newest = records.newest_attempt(paths)
    found = records.read_records(newest, problems)
    if problems:
        raise RefusalError(f"job {name} may have run already: {problems[0]}. Choose another name.")
    if not found and newest.attempt == 1:
        return check_queued(name, paths)
    now = time.time()
    processes = [job_states.with_state(record, now, heartbeat_timeout) for record in found]
    started = job_states.participants(processes)
    verdict = records.read_verdict(newest)
    state = job_states.attempt_state(newest, processes, heartbeat_timeout, verdict)
    if state == RUNNING or (verdict is None and may_run(started, state)):
        return "running"
    if state != SUCCEEDED and not queue and not os.path.lexists(paths.queue) and continuation.can_continue(newest, processes, verdict):
        return "ended"
    raise RefusalError(
        f"job {name} has already run ({state}), and its results are in {paths.directory}. Choose another name."
        f" To continue from its newest checkpoint, also set training_job_resume={name}"
    )


def may_run(started: Sequence[ProcessRecord], state: str) -> bool:
    """Return whether processes of an attempt without a verdict may run. `state` is the state of the job.

    If a process has failed while others run, the task that waits for the job detects the failure, and the others can be stopped.
    """
    is_complete = bool(started) and len(started) == started[0]["processes"]
    return any(process["state"] == RUNNING for process in started) or not (is_complete or state == LOST)


def check_queued(name: str, paths: directories.Paths) -> str:
    """Return `running` if the job was submitted to a queue, otherwise `new`. Raises RefusalError if the queue could not start the job."""
    queued = records.read_queued(paths)
    if queued and "failure" in queued:
        raise RefusalError(f"job {name} could not be started by its queue, and cannot be started again. Choose another name.")
    return "running" if queued or os.path.lexists(paths.queue) else "new"
