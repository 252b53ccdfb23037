# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Submits jobs to a queue, and cancels the jobs.

Each host of a job keeps the job's parameters in a directory that belongs to root, together with the program that the queue runs there (see
hold.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule

from ...._files import replace_file
from ...._job import directories, records
from ...._job.definition.host_processes import plan
from ...._job.definition.options import OPTIONS
from ...._job.definition.refusal import EXPECTED, RefusalError
from ...._job.documents import Queued
from ...._queues import base
from ...._queues.base import Queue, QueueEntry, QueueError, QueueRequest
from ...._queues.registry import QUEUES
from ... import programs, transient_units
from ..units import checkpoint_directory, host, users
from . import hold, queries, reservation, resource_manager

if TYPE_CHECKING:
    # Ansible copies only modules that are imported to hosts. This process reads the source code of the program, and need not run it.
    from . import lead  # noqa: F401

# The options that matter only before the job is submitted, and the parameters of the `training_job` module that hosts keep until the queue
# starts the job.
BEFORE = ("version", "exclude", "resume", "queue", "gpus", "max_cost")
KEPT = (
    *(option.name for option in OPTIONS if option.name not in BEFORE),
    *("key", "hosts", "metadata_directory", "cluster", "instance_id", "capacity_end", "cost_limit"),
)

# Seconds that the queue needs to start and to end a job. These seconds are added to the time limit after which the job ends by itself.
EXTRA_SECONDS = 300

# Maximum time, in seconds, between writing a job's parameters to the hosts and submitting the job.
SUBMISSION_TIMEOUT = 3600

# Seconds to wait, in addition to the stop timeout of a cancelled job, until the job's hosts are free.
CANCEL_SECONDS = 60.0


def hosts_of(run: users.RunCommand, queue: Queue, metadata_directory: str) -> list[str]:
    """Return the names of the hosts that belong to the queue. Raises QueueError or RefusalError."""
    names = queue.read_hosts(queries.ask(run, queue, queue.show_hosts))
    if not queue.reservations:
        return names
    try:
        return resource_manager.cluster_names(names, host.read_metadata(metadata_directory, "")["workers"])
    except QueueError as error:
        raise QueueError(f"queue: {error}") from error


def check(run: users.RunCommand, name: str, hosts: Sequence[str], metadata_directory: str) -> None:
    """Raise RefusalError unless the queue responds and all hosts belong to the queue."""
    queue = QUEUES[name]
    configure = f"{queue.setup}, or remove training_job_queue."
    if not queries.is_installed(queue):
        raise RefusalError(f"queue: {queue.title} is not installed on this host. {configure}")
    try:
        known = hosts_of(run, queue, metadata_directory)
    except QueueError as error:
        raise RefusalError(f"{error} {configure}") from error
    missing = [each for each in hosts if each not in known]
    if missing:
        raise RefusalError(f"queue: {', '.join(missing)} cannot be used, because {queue.title} does not know them. {configure}")


def queues_of_host(run: users.RunCommand, name: str) -> list[str]:
    """Return the names of the queues that can start jobs on this host. The argument `name` is the name of this host.

    Queues that do not respond, or whose response is not valid, are left out.
    """
    found = []
    for each, queue in QUEUES.items():
        if run(["systemctl", "is-active", "--quiet", queue.service])[0] == 0:
            status, output, _error = queries.send(queue, queue.show_host(name), run)
            with contextlib.suppress(QueueError):
                if status == 0 and queue.is_open(output):
                    found.append(each)
    return found


def entries_of(run: users.RunCommand, queue: Queue, jobs: Sequence[hold.QueuedJob]) -> dict[str, QueueEntry]:
    """Return the entries of these jobs in the queue, keyed by name. Raises QueueError.

    In queues to which other users can submit jobs, only the jobs' hosts can determine which entries belong to the jobs.
    """
    if not queue.reservations:
        return queries.entries(run, queue)
    is_own = queue.reservations.is_proven({job.name: job.nonce for job in jobs})
    return queue.read_entries(queries.ask(run, queue, queue.show_own), "", is_own)


def install(module: AnsibleModule, paths: directories.Paths) -> dict[str, Any]:
    """Keep the job's parameters on this host until the queue starts the job. Raises QueueError, or one of ERRORS."""
    params = module.params
    user = users.ensure(module.run_command, params["user"], make=not module.check_mode)
    host.read_metadata(params["metadata_directory"], params["generation"])
    checkpoint_directory.keep_directory(params, paths, user)
    chosen = sorted(params["hosts"], key=lambda each: int(each["number"]))[: host_count(params)]
    plan({**params, "hosts": chosen}, paths)  # this call raises the launcher's errors
    queue = QUEUES[params["queue"]]
    if queue.reservations and not params["key"]:
        raise RefusalError(f"key: missing. Specify a random string, with which the hosts recognize the job in queue {params['queue']!r}.")
    if not module.check_mode:
        prune(module.run_command, queue)
        if queue.reservations:
            reservation.stop(module.run_command, params["name"])
        kept = {key: params[key] for key in KEPT}
        document: dict[str, Any] = {"queue": params["queue"], "parameters": kept}
        if queue.reservations:
            # The job's processes get a different key, from which the nonce cannot be derived.
            document["nonce"], kept["key"] = params["key"], hashlib.sha256(params["key"].encode()).hexdigest()
        keep(params["name"], document)
        if queue.reservations:
            reservation.start(module.run_command, params["name"], params["stop_timeout"])
    return {"changed": True, "processes": [], "job_directory": paths.directory}


def keep(name: str, document: Mapping[str, Any]) -> None:
    place = hold.directory(name)
    os.makedirs(directories.HELD, exist_ok=True)
    os.chmod(directories.HELD, 0o711)
    directories.delete([place])
    os.mkdir(place, 0o700)
    with open(os.path.join(place, "hold.zip"), "wb") as file:
        file.write(programs.build("_hosts.training_job.queue.lead"))
    start = f'#!/bin/sh\naction=$1; shift\nexec {shlex.quote(sys.executable)} {place}/hold.zip "$action" {place} "$@"\n'
    replace_file(os.path.join(place, "hold"), start.encode())
    replace_file(os.path.join(place, hold.PARAMETERS), json.dumps(document).encode())


def host_count(params: Mapping[str, Any]) -> int:
    """Return the number of hosts that the job requests. Raises RefusalError if the job has fewer hosts than it requests."""
    count = params["host_count"] or len(params["hosts"])
    if count > len(params["hosts"]):
        raise RefusalError("host_count: {} is more than the {} hosts of the job. Use a smaller number.".format(count, len(params["hosts"])))
    return int(count)


def prune(run: users.RunCommand, queue: Queue) -> None:
    """Delete the parameters of jobs that have left the queue without starting on this host. Raises QueueError."""
    before = time.time() - SUBMISSION_TIMEOUT
    held = {name: hold.read_job(hold.directory(name)) for name in (os.listdir(directories.HELD) if os.path.isdir(directories.HELD) else [])}
    active = {name for name, entry in entries_of(run, queue, list(filter(None, held.values()))).items() if entry.is_active}
    for name, job in held.items():
        place = hold.directory(name)
        is_of_queue = job is None or QUEUES.get(job.queue) is queue
        if is_of_queue and name not in active and os.stat(place).st_mtime < before and not hold.has_processes(name):
            directories.delete([place])


def submit(module: AnsibleModule, paths: directories.Paths) -> dict[str, Any]:
    """Submit the job to the queue unless the queue contains it.

    Raises RefusalError, QueueError, UserError, FailedWorkError or UnitError.
    """
    params, run = module.params, module.run_command
    queue, name = QUEUES[params["queue"]], params["name"]
    user = users.ensure(run, params["user"], make=not module.check_mode)
    job = hold.read_job(hold.directory(name))
    if queue.reservations and not (job and job.nonce) and not module.check_mode:
        raise RefusalError(
            f"queue: this host does not have the parameters of job {name}. Run the module with state queued on all hosts first."
        )
    with transient_units.exclusive(directories.QUEUE_LOCK):
        found = entries_of(run, queue, [job] if job else []).get(name)
        if found and found.is_active:
            return {"changed": False, "queue_id": found.id}
        if module.check_mode:
            return {"changed": True}
        identity = base.read_id(queries.ask(run, queue, queue.submit(request(run, params, queue, job.nonce if job else ""))))
    note: Queued = {"queue": params["queue"], "id": identity, "submitted": time.time()}
    try:
        users.as_user(user, lambda: records.write_new_json(paths.queue, note), EXPECTED)
    except (users.UserError, users.FailedWorkError, OSError):
        queries.ask(run, queue, queue.cancel([identity]))
        raise
    return {"changed": True, "queue_id": identity}


def request(run: users.RunCommand, params: Mapping[str, Any], queue: Queue, nonce: str = "") -> QueueRequest:
    """Return what the job requests from the queue. Raises RefusalError or QueueError."""
    hosts = [each["name"] for each in sorted(params["hosts"], key=lambda each: int(each["number"]))]
    known = sorted(set(hosts_of(run, queue, params["metadata_directory"])))
    limit = params["time_limit"] and sum(params[key] for key in ("time_limit", "stop_timeout", "heartbeat_timeout")) + EXTRA_SECONDS
    return QueueRequest(
        job=params["name"],
        hosts=hosts,
        excluded=[each for each in known if each not in hosts],
        host_count=host_count(params),
        hold=hold.command(params["name"], "hold"),
        finish=hold.command(params["name"], "finish"),
        minutes=-(-limit // 60),
        lead=hold.command(params["name"], "lead"),
        answers=[queries.ask(run, queue, question) for question in (queue.reservations.questions if queue.reservations else ())],
        nonce=nonce,
    )


def leave(run: users.RunCommand, job: hold.QueuedJob) -> None:
    """Cancel a job on behalf of one of its hosts, and end the unit that waits for the queue on this host. Raises QueueError.

    The unit also ends if the queue does not respond, because it would start the job later.
    """
    try:
        cancel(run, job)
    finally:
        if QUEUES[job.queue].reservations:
            reservation.stop(run, job.name)


def cancel(run: users.RunCommand, job: hold.QueuedJob) -> None:
    """Cancel a job on behalf of one of its hosts, and wait until it has left the queue. Raises QueueError."""
    queue = QUEUES[job.queue]
    end = time.monotonic() + job.parameters["stop_timeout"] + CANCEL_SECONDS
    is_cancelled = False
    while True:
        entry = entries_of(run, queue, [job]).get(job.name)
        if not entry or not entry.is_active:
            return
        # This command fails if the job has just ended, or if another host has just cancelled the job.
        is_cancelled = is_cancelled or queries.send(queue, queue.cancel([entry.id]), run)[0] == 0
        if time.monotonic() > end:
            raise QueueError(f"queue: timed out waiting for job {entry.id} to leave {queue.title}. Check its hosts.")
        time.sleep(hold.INTERVAL)
