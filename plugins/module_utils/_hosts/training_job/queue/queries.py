# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends requests to queueing systems, and reads what they know about jobs.

This file does not import submission.py, because Ansible copies all imported files to a host whenever a module runs there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Sequence

from ...._job import directories
from ...._job.job_status import JobStatus
from ...._job.state_names import PENDING, QUEUED, STOPPED
from ...._queues.base import CANCELLED, WAITING, Queue, QueueEntry, QueueError
from ...._queues.registry import QUEUES
from ..units.users import RunCommand
from . import resource_manager

# The directories in which packages install the commands of queueing systems.
SEARCH = os.pathsep.join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))

# Time limit in seconds for one command of the queueing system. The commands retry while the queueing system does not respond.
COMMAND_TIMEOUT = "30"


def run(command: list[str]) -> tuple[int, str, str]:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        return 127, "", f"{command[0]}: {error.strerror}"
    return done.returncode, done.stdout, done.stderr


def send(queue: Queue, command: Sequence[str], run: RunCommand = run) -> tuple[int, str, str]:
    """Run a command of a queue, or send it to the queue's API. Return its exit status, output and errors."""
    if queue.reservations:
        return resource_manager.send(*command)
    return run(["timeout", COMMAND_TIMEOUT, *command])


def ask(run: RunCommand, queue: Queue, command: Sequence[str]) -> str:
    """Return the output of a queueing system's command. Raises QueueError."""
    status, output, error = send(queue, command, run)
    if status:
        text = (error or output).strip().rstrip(".") or f"the command ended with exit status {status}"
        subject = f"a request to {queue.title}" if queue.reservations else f"{command[0]} of {queue.title}"
        raise QueueError(f"queue: {subject} failed: {text}.")
    return output


def is_installed(queue: Queue) -> bool:
    return all(shutil.which(program, path=SEARCH) for program in queue.programs)


def entries(run: RunCommand, queue: Queue) -> dict[str, QueueEntry]:
    """Return the training jobs in the queue, keyed by name. Raises QueueError."""
    return queue.read_entries(ask(run, queue, queue.show_own), ask(run, queue, queue.show_waiting))


def complete(run: RunCommand, jobs: Sequence[JobStatus]) -> None:
    """Extend the status of each queued job with the information from the queue, and with what root knows about the job on this host."""
    queued = [job for job in jobs if job["state"] == QUEUED]
    for name in sorted({job["queue"]["queue"] for job in queued}):
        waiting = [job for job in queued if job["queue"]["queue"] == name]
        for job in waiting:
            job["queue"]["held"] = directories.is_held(job["name"])
        try:
            found = recorded_entries(run, name, waiting)
        except QueueError as error:
            for job in waiting:
                job["queue"]["problem"] = str(error)
        else:
            for job in waiting:
                complete_job(job, found.get(job["name"]))


def recorded_entries(run: RunCommand, name: str, jobs: Sequence[JobStatus]) -> dict[str, QueueEntry]:
    """Return the entries of this queue that were recorded for these jobs, keyed by the jobs' names. Raises QueueError."""
    queue = QUEUES.get(name)
    if not queue or not is_installed(queue):
        return {}
    if not queue.reservations:
        return entries(run, queue)
    own, waiting = ask(run, queue, queue.show_own), ask(run, queue, queue.show_waiting)
    return queue.read_entries(own, waiting, queue.reservations.has_id({job["name"]: job["queue"]["id"] for job in jobs}))


def complete_job(job: JobStatus, entry: QueueEntry | None) -> None:
    """Complete the state of a job that has no records, based on the job's entry in the queue.

    A job whose hosts have been allocated is about to start. The job's first records become visible on this host after a while.
    """
    if entry is not None and entry.stage == WAITING:
        job["queue"] = {**job["queue"], "id": entry.id, "reason": entry.reason, "before": entry.before}
        return
    job["state"] = STOPPED if entry is None or entry.stage == CANCELLED else PENDING
    for attempt in job["attempts"]:
        attempt["state"] = job["state"]
