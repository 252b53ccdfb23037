# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The unit that runs a job on this host when YARN has reserved all of the job's hosts.

``reserve`` starts when the job's parameters are written to this host, before the job is submitted. It waits until the application has a
container on each of its hosts, and then runs the job on this host as `hold` does (see hold.py). The containers have no rights: they only
check whether this unit is active. YARN frees the host when the container has noticed that this unit has ended.
"""

from __future__ import annotations

import os
import signal
import time

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import hold, resource_manager, systemd, users
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.host import read_metadata
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.refusal import RefusalError
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues import yarn
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.base import (
    ALLOCATED,
    CANCELLED,
    HOSTS,
    Command,
    Entry,
    QueueError,
    unit_name,
)

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

    def __init__(self, job: hold.Job) -> None:
        super().__init__(job)
        self.last_request = self.last_container = time.monotonic()
        self.own = ""

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
        if status:
            self.cancel_entry()
        records.delete([self.job.directory])  # the directory may contain secrets
        return status

    def wait_for_hosts(self) -> tuple[str, list[str]] | None:
        """Return the ID of the entry and the allocated hosts, or None if the job does not run on this host. Raises one of ERRORS."""
        end = time.monotonic() + SUBMISSION_TIMEOUT
        last: Entry | None = None
        while not self.cancelled.wait(INTERVAL):
            try:
                entry = self.read_entry()
                hosts = self.allocated(entry, last)
                if entry and not entry.is_active:
                    self.check_end(entry)
            except QueueError as error:
                hold.warn(str(error))
                continue
            if hosts and entry:
                return (entry.id, hosts) if self.own_name() in hosts else None
            if (entry or last or time.monotonic() > end) and not (entry and entry.is_active):
                return None
            last = entry
        return None

    def allocated(self, entry: Entry | None, last: Entry | None) -> list[str]:
        """Return the allocated hosts in the order of their numbers, or [] if YARN has not started a container on each of them.

        A container that finds no unit on its host ends immediately. Therefore, all containers must exist in two consecutive checks. Raises
        QueueError, and RefusalError if the job can never start.
        """
        if entry is None or not entry.is_active:
            return []
        if entry.stage == ALLOCATED:
            hosts = self.containers(entry.id) if last and last.stage == ALLOCATED else []
            numbers = {host["name"]: int(host["number"]) for host in self.job.parameters["hosts"]}
            strangers = [host for host in hosts if host not in numbers]
            if strangers:
                raise RefusalError(f"YARN has allocated hosts that the job was not submitted for: {', '.join(strangers)}. {AGAIN}")
            is_complete = len(hosts) == int(self.job.parameters["host_count"] or len(numbers))
            return sorted(hosts, key=lambda host: numbers[host]) if is_complete else []
        if float(yarn.read_application(self.ask(yarn.show(entry.id))).get("progress") or 0):
            raise RefusalError(f"a container ended before the job started, because no unit on its host waits for the job. {AGAIN}")
        return []

    def own_name(self) -> str:
        """Return the name of this host among the job's hosts. Raises RefusalError."""
        if not self.own:
            metadata = read_metadata(self.job.parameters["metadata_directory"], "")
            self.own = next(str(worker["name"]) for worker in metadata["workers"] if worker["number"] == metadata["number"])
        return self.own

    def check_end(self, entry: Entry) -> None:
        """Raise RefusalError with YARN's reason if the application has ended before the job started. Raises QueueError."""
        if entry.stage != CANCELLED and not records.read_records(self.job.paths):
            found = yarn.read_application(self.ask(yarn.show(entry.id)))
            text = " ".join(str(found.get("diagnostics") or "no reason given").split()).rstrip(".")
            raise RefusalError(f"YARN ended application {entry.id} ({found.get('finalStatus')}): {text}. Read its logs.")

    def check_entry(self) -> None:
        """Notice that YARN has ended the application, or the container on this host."""
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

    def read_entry(self) -> Entry | None:
        """Return the job's entry in the queue, or None if it has none. Raises QueueError."""
        return yarn.read_entries(self.ask(yarn.SHOW_OWN), "").get(self.job.name)

    def containers(self, identity: str) -> list[str]:
        """Return the names of the hosts on which the application has containers. Raises QueueError."""
        shown = self.ask(yarn.show_containers(identity, self.ask(yarn.show_attempts(identity))))
        return [resource_manager.cluster_name(name) for name in yarn.read_containers(shown)]

    def ask(self, request: Command) -> str:
        status, output, error = resource_manager.send(*request)
        if status:
            raise QueueError(f"a request to YARN failed: {error}.")
        return output

    def cancel_entry(self) -> None:
        """Cancel the job on all of its hosts."""
        try:
            entry = self.read_entry()
            if entry and entry.is_active:
                self.ask(yarn.cancel([entry.id]))
        except QueueError as error:
            hold.warn(str(error))


def stop(run: users.Run, job: str) -> None:
    """Stop the unit of a job that has not been submitted, or has left the queue. The unit deletes the job's directory."""
    run(["systemctl", "stop", unit_name(job)])


def start(run: users.Run, job: str, stop_timeout: int) -> None:
    """Start the unit that waits for the job's hosts. Raises UnitError."""
    unit = unit_name(job)
    options = ["--quiet", "--collect", f"--unit={unit}", f"--description=Queue: training job {job} waits for this host"]
    options += [f"--property=SyslogIdentifier=deeplearning_queue-{job}", "--property=KillMode=process"]
    options += [f"--property=TimeoutStopSec={stop_timeout + STOP_SECONDS}"]
    status, _output, error = run(["systemd-run", *options, "/bin/sh", f"{hold.directory(job)}/hold", "reserve"])
    if status:
        raise systemd.UnitError(f"systemd-run could not start {unit}: {error.strip()}")
