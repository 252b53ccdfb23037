# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The program that a queue runs as root on each host that it has allocated to a job.

The program keeps the host allocated until the job has ended on the host.

``hold DIRECTORY`` starts the job's processes on this host in the same way as the `training_job` module. This command waits until no process
is left, and stops the processes if the queue ends the job. ``finish DIRECTORY STATUS`` then runs on the first host. STATUS is the highest
exit status of all hosts, or ``cancelled``. ``lead DIRECTORY`` runs both commands for queueing systems that start only one program (see
lead.py).

The controller has written the job's parameters to DIRECTORY, which belongs to root. Users of the queue can neither write to the directory
nor run the program with root's privileges. The program is copied to the hosts with the files that it imports, and needs only the standard
library.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, NamedTuple

from ...._job import directories, document_schemas, job_states, naming, records
from ...._job.definition.attempt_processes import plan_specs
from ...._job.definition.refusal import EXPECTED, RefusalError
from ...._job.documents import Queued
from ...._job.state_names import LOST, RUNNING
from ...._launchers.base import LaunchError
from ...._queues.base import CANCELLED, ENDED, OneProgram, Queue
from ...._queues.registry import QUEUES
from ...transient_units import TransientUnit, exclusive
from ..units import launch, systemd, users
from ..units.host import read_metadata
from . import queries

PARAMETERS = "parameters.json"

# Seconds between two checks of whether the job's units have ended.
INTERVAL = 1.0

# Seconds between two checks of whether the job has ended on its first host.
RELEASE_INTERVAL = 2.0

# Time limit, in seconds, for an operation that runs as the job's user on the shared storage.
PATIENCE = 60.0

# The variable with the ID of the process that stops this program if the queue cancels the job (see lead.py). This program may outlive it.
CLIENT = "DEEPLEARNING_QUEUE_CLIENT"

# The signals with which a queue cancels a job. SGE sends SIGUSR2, and kills the job after a while.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)

ERRORS = (*EXPECTED, LaunchError, systemd.UnitError, users.UserError, users.FailedWorkError, OSError)

# If the program is killed, this command ends the job's processes, because the queue then gives the host to other jobs.
GUARD = 'tail --pid="$1" --follow /dev/null; systemctl stop "$2"'


class QueuedJob(NamedTuple):
    """A job that was submitted to a queue: its directory on this host, the name of the queue, and the parameters of the job.

    `nonce` proves to the job's hosts that an entry in the queue belongs to the job. It is empty for queues to which only root can submit
    training jobs. The job's processes cannot read it.
    """

    directory: str
    queue: str
    parameters: dict[str, Any]
    nonce: str = ""

    @property
    def name(self) -> str:
        return str(self.parameters["name"])

    @property
    def paths(self) -> directories.Paths:
        return directories.Paths(os.path.join(self.parameters["directory"], self.name))


def directory(job: str) -> str:
    return os.path.join(directories.HELD, job)


def read_job(place: str) -> QueuedJob | None:
    """Return the job whose parameters are in the directory, or None if the directory contains no job."""
    found = records.read_json(os.path.join(place, PARAMETERS))
    return QueuedJob(place, found["queue"], found["parameters"], found.get("nonce", "")) if found else None


def entry_state(queue: Queue, program: OneProgram) -> str:
    """Return ENDED or CANCELLED if the queue reports that it has ended or cancelled the job, otherwise an empty string."""
    status, output, _error = queries.send(queue, queue.show_own)
    return "" if status else program.entry_state(output, queue.identity(os.environ))


def own_name() -> str:
    return os.uname().nodename.partition(".")[0]


def warn(text: str) -> None:
    sys.stderr.write(text + "\n")


class Holder:
    """Runs a job on this host for as long as the queue allows it."""

    def __init__(self, job: QueuedJob) -> None:
        self.job = job
        self.cancelled = threading.Event()
        self.alone_since: float | None = None

    def run(self) -> int:
        for number in SIGNALS:
            signal.signal(number, lambda *_: self.cancelled.set())
        try:
            start_guard(self.job.name)
            if not self.cancelled.is_set():
                self.start()
        except ERRORS as error:
            warn(str(error))
            report(self.job, f"{own_name()}: {error}")
            self.stop()
            return 1
        else:
            self.wait()
            self.release()
            return 0
        finally:
            if own_name() != self.first_host():
                directories.delete([self.job.directory])  # the directory may contain secrets

    def start(self) -> None:
        """Start the processes of this host unless they are running. Raises one of ERRORS."""
        params = {**self.job.parameters, "hosts": allocated_hosts(self.job)}
        params["min_hosts"] = params["min_hosts"] or len(params["hosts"])
        metadata = read_metadata(params["metadata_directory"], "")
        check_addresses(params["hosts"], metadata["workers"])
        own = [host["name"] for host in params["hosts"] if host["number"] == metadata["number"]]
        specs = plan_specs(params, self.job.paths, own)
        user = users.ensure(queries.run, params["user"], make=True)
        with exclusive():
            stop_former_jobs(self.job.name)
            if not systemd.active_units(queries.run, self.job.name):
                launch.start_processes(queries.run, warn, params, self.job.paths, user, specs, metadata["gpu_count"])

    def wait(self) -> None:
        """Wait until no process of the job is left on this host. Stop the processes if the queue ends the job."""
        while has_processes(self.job.name):
            self.check_entry()
            if self.cancelled.wait(INTERVAL):
                self.stop()
                time.sleep(INTERVAL)  # the loop continues only if a process is left

    def release(self) -> None:
        """Cancel the job in the queue if the job's first host is lost, because only that host tells the queue that the job has ended."""
        try:
            while not self.cancelled.is_set():
                self.check_entry()
                states = self.states_of_first_host()
                if LOST in states:
                    queue = QUEUES[self.job.queue]
                    identity = queue.identity(os.environ)
                    command = queue.one_program.abandon(identity) if queue.one_program else queue.cancel([identity])
                    queries.send(queue, command)
                elif RUNNING not in states:
                    return
                self.cancelled.wait(RELEASE_INTERVAL)
        except ERRORS as error:
            warn(str(error))

    def check_entry(self) -> None:
        """Ask the queue whether it has ended the job, but only if `attach`, which stops this program on request, has itself ended.

        That the queue has cancelled the entry counts only while the job runs on the first host, because the queue itself cancels an entry
        that has lost its first host.
        """
        queue, client = QUEUES[self.job.queue], os.environ.get(CLIENT)
        if not queue.one_program or not client or os.path.exists(f"/proc/{client}"):
            return
        self.alone_since = self.alone_since or time.monotonic()
        entry = entry_state(queue, queue.one_program)
        is_old = time.monotonic() > self.alone_since + self.job.parameters["heartbeat_timeout"]
        if entry == ENDED or (entry == CANCELLED and is_old and self.runs_on_first_host()):
            self.cancelled.set()

    def runs_on_first_host(self) -> bool:
        """Return whether processes of the job are running on the job's first host. If this is unknown, return False."""
        try:
            return RUNNING in self.states_of_first_host()
        except ERRORS as error:
            warn(str(error))
            return False

    def first_host(self) -> str:
        """Return the name of the host on which `finish` runs, or an empty string if it is not known."""
        try:
            return str(allocated_hosts(self.job)[0]["name"])
        except RefusalError:
            return ""

    def states_of_first_host(self) -> list[str]:
        """Return the states of the job's processes on the job's first host. Raises one of ERRORS."""
        return states_of(self.job, self.first_host())

    def stop(self) -> None:
        try:
            systemd.stop(queries.run, self.job.name)
        except systemd.UnitError as error:
            warn(str(error))


def command(job: str, action: str) -> list[str]:
    return ["systemd-cat", f"--identifier=deeplearning_queue-{job}", "/bin/sh", f"{directory(job)}/hold", action]


def states_of(job: QueuedJob, host: str) -> list[str]:
    """Return the states of the job's processes on a host, in the last attempt that ran there. Raises one of ERRORS."""
    timeout = job.parameters["heartbeat_timeout"]

    def read() -> list[str]:
        for attempt in range(records.newest_attempt(job.paths).attempt, 0, -1):
            paths = job.paths.of_attempt(attempt)
            os.utime(paths.status)  # makes an NFS client fetch the records again
            found = [record for record in records.read_records(paths) if record["host"] == host]
            if found:
                return [job_states.process_state(record, time.time(), timeout) for record in found]
        return []

    user = users.ensure(queries.run, job.parameters["user"], make=False)
    return list(users.as_user(user, read, EXPECTED, patience=PATIENCE))


def start_guard(job: str) -> None:
    """Start a unit that ends the job's processes on this host as soon as this process has ended. Raises UnitError."""
    guard = ["/bin/sh", "-c", GUARD, "sh", str(os.getpid()), naming.slice_name(job)]
    unit = TransientUnit(f"deeplearning_queue-{job}.service", f"Queue: training job {job}", guard)
    queries.run(["systemctl", "stop", unit.name])  # if the queue has started this program a second time
    unit.start(queries.run)


def allocated_hosts(job: QueuedJob) -> list[dict[str, Any]]:
    """Return the descriptions of the hosts that the queue has allocated, in the order that the queue reports. Raises RefusalError."""
    command = QUEUES[job.queue].allocation(os.environ)
    status, output, error = queries.run(command)
    names = output.split()
    described = {host["name"]: host for host in job.parameters["hosts"]}
    found = [described[name] for name in names if name in described]
    if status or not names or len(found) < len(names):
        shown = ", ".join(names) or error.strip()
        raise RefusalError(
            f"the queue has allocated hosts that the job was not submitted for: {shown}. Submit the job again with another name."
        )
    return found


def check_addresses(hosts: list[dict[str, Any]], workers: list[dict[str, Any]]) -> None:
    """Raise RefusalError if one of the job's hosts has been replaced since the job was submitted."""
    present = {(worker["name"], worker["address"]) for worker in workers}
    for host in hosts:
        if (host["name"], host["address"]) not in present:
            raise RefusalError(
                f"{host['name']} no longer has the address {host['address']} that it had when the job was submitted."
                " Submit the job again with another name."
            )


def stop_former_jobs(job: str) -> None:
    """Stop the remaining processes of other queued jobs, because the queue has allocated this host to this job alone. Raises UnitError."""
    for other in os.listdir(directories.HELD):
        if other != job and naming.JOB_NAME.fullmatch(other) and has_processes(other):
            systemd.stop(queries.run, other)


def has_processes(job: str) -> bool:
    """Return whether a unit or a process of the job remains on this host."""
    return bool(directories.runtime_directories(job) or systemd.processes(job))


def report(job: QueuedJob, failure: str, only_if: Any = None) -> None:
    """Record, as the job's user, why the job did not start.

    If the function `only_if` is given, record the reason only if `only_if` returns true.
    """
    paths = job.paths

    def write() -> None:
        found: Queued = records.read_queued(paths) or {"queue": job.queue, "id": "0", "submitted": time.time()}
        if "failure" not in found and (only_if is None or only_if()):
            records.write_json(paths.queue, {**found, "failure": failure[: document_schemas.SENTENCE_LIMIT]})

    try:
        users.as_user(users.ensure(queries.run, job.parameters["user"], make=False), write, patience=PATIENCE)
    except (users.UserError, users.FailedWorkError, OSError, KeyError) as error:
        warn(f"cannot write {paths.queue}: {error}")


def finish(job: QueuedJob, status: str) -> int:
    """Delete the job's parameters. If the queue failed to start the job and no host has recorded the reason, record the failure."""
    if status not in ("0", CANCELLED):
        text = f"the queue could not start the job on all of its hosts (exit status {status}). Read the journals of the job's hosts."
        report(job, text, lambda: not records.read_records(job.paths))
    directories.delete([job.directory])
    return 0


def main(arguments: list[str]) -> int:
    action, place, rest = arguments[0], arguments[1], arguments[2:]
    os.umask(0o022)
    job = read_job(place)
    if job is None:
        warn(f"{place} contains no job")
        return 1
    return Holder(job).run() if action == "hold" else finish(job, *rest)
