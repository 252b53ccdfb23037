# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The unit that runs a job on this host when YARN has reserved all of the job's hosts.

``reserve`` starts when the job's parameters are written to this host, before the job is submitted. It waits until the application has a
container on each of its hosts, and then runs the job on this host as `hold` does (see hold.py). The containers have no rights: they only
check whether this unit is active. YARN frees the host when the container has detected that this unit has ended.
"""

from __future__ import annotations

import os
import signal
import time

from ...._job import directories, records
from ...._job.definition.refusal import RefusalError
from ...._queues import yarn
from ...._queues.base import ALLOCATED, CANCELLED, HOSTS, Command, QueueEntry, QueueError, unit_name
from ...transient_units import TransientUnit
from ..units import users
from ..units.host import read_metadata
from . import hold, resource_manager

# Seconds between two requests to YARN.
INTERVAL = 5.0

# Maximum time, in seconds, between the start of this unit and the submission of the job.
SUBMISSION_TIMEOUT = 3600.0

# Seconds without the host's container after which the host counts as lost to the job. A new ApplicationMaster takes over the containers
# of the last one within this time.
CONTAINER_TIMEOUT = 60.0

# Seconds that this unit needs to end, in addition to the job's stop timeout.
STOP_SECONDS = 60

ERRORS = (*hold.ERRORS, QueueError)

AGAIN = "Submit the job again with another name."


class Reservation(hold.Holder):
    """Waits for a job's hosts, and then runs the job on this host."""

    def __init__(self, job: hold.QueuedJob) -> None:
        super().__init__(job)
        self.last_request = self.last_container = time.monotonic()
        self.own = self.identity = ""

    def run(self) -> int:
        for number in hold.SIGNALS:
            signal.signal(number, lambda *_: self.cancelled.set())
        status = 0
        try:
            found = self.wait_for_hosts()
            if found:
                os.environ[yarn.IDENTITY], os.environ[HOSTS] = found[0], ":".join(found[1])
                status = super().run()
        except ERRORS as error:
            hold.warn(str(error))
            hold.report(self.job, str(error), lambda: not records.read_records(self.job.paths))
            status = 1
        finally:
            directories.delete([self.job.directory])  # the directory may contain secrets
        if status:
            self.cancel_entry()
        return status

    def wait_for_hosts(self) -> tuple[str, list[str]] | None:
        """Return the ID of the entry and the allocated hosts, or None if the job does not run on this host. Raises one of ERRORS."""
        end = time.monotonic() + SUBMISSION_TIMEOUT
        last: QueueEntry | None = None
        while not self.cancelled.wait(INTERVAL):
            try:
                entry = self.read_entry()
                hosts = self.allocated(entry, last)
                if entry and not entry.is_active:
                    self.check_end(entry)
                    return None
            except QueueError as error:
                hold.warn(str(error))
                continue
            if hosts and entry:
                return (entry.id, hosts) if self.own_name() in hosts else None
            if not entry and (last or time.monotonic() > end):
                return None
            last = entry
        return None

    def allocated(self, entry: QueueEntry | None, last: QueueEntry | None) -> list[str]:
        """Return the allocated hosts, sorted by number, or [] if YARN has not started a container on each of them.

        A container that finds no unit on its host ends immediately. Therefore, all containers must exist in two consecutive checks. Raises
        QueueError, and RefusalError if the job can never start.
        """
        if entry is None or not entry.is_active:
            return []
        if entry.stage == ALLOCATED:
            return self.chosen_hosts(entry.id) if last and last.stage == ALLOCATED else []
        if yarn.has_progress(yarn.read_application(self.ask(yarn.show(entry.id)))):
            raise RefusalError(f"a container ended before the job started, because no unit on its host waits for the job. {AGAIN}")
        return []

    def chosen_hosts(self, identity: str) -> list[str]:
        """Return the hosts of the application's first containers, one for each host that the job needs, sorted by number.

        YARN can allocate more containers than requested. Returns [] while some containers are missing. Raises QueueError, and RefusalError
        if the job cannot run on these hosts.
        """
        numbers = {host["name"]: int(host["number"]) for host in self.job.parameters["hosts"]}
        count = int(self.job.parameters["host_count"] or len(numbers))
        containers = self.containers(identity)
        hosts = list(dict.fromkeys(containers))[:count]
        strangers = [host for host in hosts if host not in numbers]
        if strangers:
            raise RefusalError(f"YARN has allocated hosts that the job was not submitted for: {', '.join(strangers)}. {AGAIN}")
        if len(hosts) < count <= len(containers):
            raise RefusalError(f"YARN has started several containers of the job on one host, so it did not reserve entire hosts. {AGAIN}")
        return sorted(hosts, key=lambda host: numbers[host]) if len(hosts) == count else []

    def own_name(self) -> str:
        """Return the name of this host in the cluster. Raises RefusalError."""
        if not self.own:
            metadata = read_metadata(self.job.parameters["metadata_directory"], "")
            own = [str(worker["name"]) for worker in metadata["workers"] if worker["number"] == metadata["number"]]
            if not own:
                raise RefusalError(
                    f"the metadata on this host has no entry for this host (worker {metadata['number']}). Configure the hosts again."
                )
            self.own = own[0]
        return self.own

    def check_end(self, entry: QueueEntry) -> None:
        """Raise RefusalError with YARN's reason if the application has ended but was not cancelled. Raises QueueError.

        If the job has started on other hosts, run() does not record the reason.
        """
        if entry.stage != CANCELLED:
            found = yarn.read_application(self.ask(yarn.show(entry.id)))
            text = (yarn.diagnostics(found) or "no reason given").rstrip(".")
            raise RefusalError(f"YARN ended application {entry.id} ({yarn.final_status(found)}): {text}. Read its logs.")

    def check_entry(self) -> None:
        """Stop the job on this host if YARN has ended the application or its container on this host."""
        if time.monotonic() < self.last_request + INTERVAL:
            return
        self.last_request = time.monotonic()
        try:
            entry = self.read_entry()
            hosts = self.containers(entry.id) if entry and entry.is_active else []
        except QueueError as error:
            hold.warn(str(error))
            self.last_container = time.monotonic()
            return
        if self.own_name() in hosts:
            self.last_container = time.monotonic()
        if entry is None or not entry.is_active or time.monotonic() > self.last_container + CONTAINER_TIMEOUT:
            hold.warn("YARN no longer holds this host for the job, so the job is stopped here.")
            self.cancelled.set()

    def release(self) -> None:
        """Do nothing, because the container on each host ends with this unit."""

    def read_entry(self) -> QueueEntry | None:
        """Return the job's entry in the queue, or None if it has none.

        Once an entry has been found, only that entry counts. Raises QueueError.
        """
        name = self.job.name
        is_own = yarn.has_id({name: self.identity}) if self.identity else yarn.is_proven({name: self.job.nonce})
        entry = yarn.read_entries(self.ask(yarn.SHOW_OWN), "", is_own).get(name)
        self.identity = entry.id if entry else self.identity
        return entry

    def containers(self, identity: str) -> list[str]:
        """Return the names of the hosts on which the application has containers. Raises QueueError."""
        shown = self.ask(yarn.show_containers(identity, self.ask(yarn.show_attempts(identity))))
        return resource_manager.cluster_names(yarn.read_containers(shown), self.job.parameters["hosts"])

    def ask(self, request: Command) -> str:
        status, output, error = resource_manager.send(*request)
        if status:
            raise QueueError(f"a request to YARN failed: {error}.")
        return output

    def cancel_entry(self) -> None:
        try:
            entry = self.read_entry()
            if entry and entry.is_active:
                self.ask(yarn.cancel([entry.id]))
        except QueueError as error:
            hold.warn(str(error))


def stop(run: users.RunCommand, job: str) -> None:
    """Stop the unit of a job that has not been submitted, or has left the queue. The unit deletes the job's directory."""
    run(["systemctl", "stop", unit_name(job)])


def start(run: users.RunCommand, job: str, stop_timeout: int) -> None:
    """Start the unit that waits for the job's hosts. Raises UnitError."""
    properties = [f"SyslogIdentifier=deeplearning_queue-{job}", "KillMode=process", f"TimeoutStopSec={stop_timeout + STOP_SECONDS}"]
    program = ["/bin/sh", f"{hold.directory(job)}/hold", "reserve"]
    TransientUnit(unit_name(job), f"Queue: training job {job} waits for this host", program, properties).start(run)
