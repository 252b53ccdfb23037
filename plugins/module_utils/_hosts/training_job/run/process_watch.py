# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the record of a supervisor's process, and detects when the attempt is over."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Any, cast

from ...._job import failure_causes, hangs, periodic_findings
from ...._job.definition.attempt_processes import plan_specs
from ...._job.directories import Paths
from ...._job.documents import CauseRecord, ProcessRecord, ProcessSpec, Verdict
from ...._job.failed_process import first_failure, has_waited
from ...._job.job_states import job_state, participants
from ...._job.naming import MAY_BE_LOST, STANDBY
from ...._job.records import read_record, read_records, read_verdict, write_json, write_new_json
from ...._job.state_names import FAILED, LOST, RUNNING, STOPPED, SUCCEEDED, is_over
from ..files import checkpoint_files, logs, progress
from . import between_attempts, descendant_processes, process_failures, stacks, stale_locks
from .leftovers import cache_environment

# Heartbeat interval in seconds. An NFS client's view of a directory may be 30 seconds old, unless the client itself has written to the
# directory. So each heartbeat that a host writes also makes the host see the current records of the other hosts.
HEARTBEAT_INTERVAL = 5.0
POLL_INTERVAL = 2.0

# Seconds between two polls while a hang is suspected, and between two reads of the reported steps.
SHORT_INTERVAL = 0.25

# Number of polls that must see a failure before the verdict is written. If several processes fail together, the failure that is seen
# first might not be the first failure.
POLLS_OF_FAILURE = 2

# Seconds to wait for the stacks of all processes if the job hangs. A supervisor may see the request for stack traces one heartbeat late.
STACKS_TIMEOUT = 30.0


class Watch:
    """Writes this process's record, and detects when the job is over.

    Runs in a thread, so that the supervisor can stop its process even while shared storage hangs.
    """

    def __init__(self, spec: ProcessSpec, record: ProcessRecord) -> None:
        self.record = record
        self.verdict: Verdict | None = None
        # Whether the supervisor has already begun to stop the process.
        self.is_stopping = False
        self.notice: CauseRecord | None = None
        self._paths = Paths(spec["directory"], spec["attempt"])
        self._lead = spec["lead"]
        parameters = spec["parameters"]
        self._restarts = parameters["restarts"]
        self._spec = spec
        self._timeout = parameters["heartbeat_timeout"]
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._heard: dict[str, tuple[float, float]] = {}
        self._looked_at = time.monotonic()
        self._watched = 0.0
        self._failures_seen = 0
        self._progress_size = 0
        self._detects_hangs = bool(parameters["hang_timeout"] or parameters["hang_steps"]) and spec["part"] != STANDBY
        self._activity = hangs.Activity(self._watched, parameters["hang_timeout"], parameters["hang_steps"], parameters["hang_minimum"])
        self._progress_offset = _size(self._paths.progress)
        self._log_size = 0
        self._hang_seen = 0.0
        self._stacks_asked = False
        self._is_hurried = False
        self._health = periodic_findings.PeriodicFindings(time.time())
        self._heeds_health = heeds_health(spec)

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def write(self, **changes: Any) -> None:
        """Write the record with the current time. If the storage is full, training continues, and the next heartbeat retries."""
        with self._lock:
            self.record = cast(ProcessRecord, {**self.record, **changes, "heartbeat": time.time()})
            path = self._paths.record(self.record["name"])
            try:
                write_json(path, self.record)
            except OSError as error:
                sys.stderr.write(f"cannot write {path}: {error}\n")
                _touch(path)
            if self.record["name"] == self._lead:
                self._note_progress()

    def poll(self) -> Verdict | None:
        self._tick()
        self._note_output()
        try:
            if self._restarts:  # so that this host's NFS client fetches the directory of records again
                os.utime(self._paths.status)
            if self.notice and self.record["state"] == RUNNING and self.record["part"] not in MAY_BE_LOST:
                return self._end_early(self.notice)
            if self._heeds_health and self.record["state"] == RUNNING:
                finding = self._health.worst(time.time(), descendant_processes.descendants)
                if finding:
                    return self._end_unhealthy(finding)
            if self.record["name"] == self._lead:
                return read_verdict(self._paths) or self._decide()
            return self._obey()
        except OSError as error:
            sys.stderr.write(f"cannot read the job's records: {error}\n")
            return None

    def is_silent(self, record: ProcessRecord) -> bool:
        """Return whether another process has sent no heartbeat for too long. The process of this supervisor is never silent."""
        self._tick()
        return record["name"] != self.record["name"] and self._is_silent(record)

    def _tick(self) -> None:
        now = time.monotonic()
        # While storage hangs, no heartbeats arrive. The first host that can read again must not consider the other hosts lost.
        self._watched += min(now - self._looked_at, 2 * POLL_INTERVAL)
        self._looked_at = now

    def _run(self) -> None:
        while not self._stopped.is_set():
            if time.time() - self.record["heartbeat"] >= HEARTBEAT_INTERVAL:
                self.write()
            verdict = self.verdict or self.poll()
            if verdict and not self.verdict:
                self._note_connections(verdict)
            self.verdict = self.verdict or verdict
            self._wait()

    def _wait(self) -> None:
        """Wait until the next poll, which follows soon if a hang is suspected or if AWS has announced that it will terminate this host.

        In the meantime, the lead reads new steps. The time since a step is measured from the moment at which the lead reads the step.
        """
        end = time.monotonic() + POLL_INTERVAL
        reads_steps = self._detects_hangs and self._spec["parameters"]["hang_steps"] and self.record["name"] == self._lead
        while not self._stopped.wait(min(SHORT_INTERVAL, POLL_INTERVAL)) and time.monotonic() < end:
            if self._is_hurried or (self.notice and not self.verdict):
                return
            if reads_steps:
                self._tick()
                self._note_steps()

    def _note_connections(self, verdict: Verdict) -> None:
        """Record whether the process can have noticed the end of the attempt by itself, and the exception for which others have waited.

        The process is still running, because the supervisor stops it when `verdict` is set.
        """
        if self.is_stopping or self.record["state"] != RUNNING:
            return
        with contextlib.suppress(OSError):
            host = between_attempts.still_connected(self._spec, verdict)
            if host:
                self.write(still_connected=host)
            found = process_failures.raised(self._spec, self.record) if has_waited(verdict["failure"]) else None
            if found:
                self.write(raised=found)

    def _note_progress(self) -> None:
        """Record the current time and the size of the progress file, because the lines in the file need not contain times."""
        try:
            size = os.path.getsize(self._paths.progress)
            if size > self._progress_size:
                with open(self._paths.progress_times, "a", encoding="utf-8") as file:
                    file.write(f"{time.time():.3f} {size}\n")
                self._progress_size = size
        except OSError:
            pass  # no progress yet, or no space left; reports work without these times

    def _decide(self) -> Verdict | None:
        processes = read_records(self._paths)
        for process in processes:
            if process["state"] == RUNNING and process["name"] != self.record["name"] and self._is_silent(process):
                process["state"] = LOST
        state = job_state(processes)
        if not is_over(state):
            started = participants(processes)
            return self._judge_missing(started) or self._judge_hang(started)
        self._failures_seen += 1
        if state != SUCCEEDED and self._failures_seen < POLLS_OF_FAILURE:
            return None
        return self._judge({"state": state, "failure": first_failure(processes)}, processes)

    def _end_unhealthy(self, finding: periodic_findings.PeriodicFinding) -> Verdict | None:
        """End the attempt because a health check of this host has found a problem, and return the verdict."""
        return self._end_early({"kind": failure_causes.HEALTH, "what": finding.message, "name": finding.severity})

    def _end_early(self, cause: CauseRecord) -> Verdict | None:
        """End the attempt for a cause on this host, and return the verdict."""
        failure: ProcessRecord = {**self.record, "state": FAILED, "finished": time.time(), "cause": cause}
        return read_verdict(self._paths) or self._judge({"state": FAILED, "failure": failure}, read_records(self._paths))

    def _judge_missing(self, processes: list[ProcessRecord]) -> Verdict | None:
        """Return a verdict if, in an attempt after the first, a process has not started in time."""
        if len(processes) == self._spec["processes"] or not self._is_overdue():
            return None
        started = {process["name"] for process in processes}
        planned = [spec for spec in plan_specs(self._spec["parameters"], self._paths) if spec["part"] != STANDBY]
        missing = next((spec for spec in planned if spec["name"] not in started), None)
        if missing is None:  # the job's own code has written records of processes that do not exist
            return None
        return self._judge({"state": LOST, "failure": {**first_record(missing), "state": LOST}}, processes)

    def _note_output(self) -> None:
        """Update the time of the last output in the record. The next heartbeat writes the record.

        Stacks do not count as output, and neither do lines that say that the program waits.
        """
        path, before = self._paths.log(self.record["name"]), self._log_size
        if not self._stacks_asked:
            self._log_size = _size(path)
        if self._log_size != before and not logs.only_waits(path, before, self._log_size):
            with self._lock:
                self.record["active"] = time.time()

    def _judge_hang(self, processes: list[ProcessRecord]) -> Verdict | None:
        """Return a verdict if the job makes no progress and all supervisors have collected the stacks of their processes."""
        if not self._detects_hangs:
            return None
        if not self.record.get("hang"):
            self._note_activity(processes)
            hang = self._activity.hang(self._watched)
            if hang:
                self._hang_seen = self._watched
                lock = stale_locks.first(cache_environment(self._spec), self.record["started"])
                self.write(hang={**hang, "lock": lock} if lock else hang)
                self._collect_stacks()
            self._hurry(bool(hang) or self._activity.suspects_hang(self._watched))
            return None
        running = [process for process in processes if process["state"] == RUNNING] or processes
        missing = any("stuck" not in process for process in running)
        if missing and self._watched - self._hang_seen < STACKS_TIMEOUT:
            return None
        return self._judge({"state": FAILED, "failure": hangs.hung_process(running, self.record["hang"], time.time())}, processes)

    def _hurry(self, is_hurried: bool) -> None:
        """Poll at short intervals while a hang is suspected, and tell the other supervisors to do the same."""
        if is_hurried != self._is_hurried:
            self._is_hurried = is_hurried
            self.write(suspects_hang=is_hurried)

    def _note_steps(self) -> None:
        entries, self._progress_offset = progress.read_progress(self._paths.progress, self._progress_offset)
        self._activity.add(entries, self._watched)

    def _note_activity(self, processes: list[ProcessRecord]) -> None:
        self._note_steps()
        if not self._activity.needs_signs(self._watched):
            return  # checkpoints can consist of many files, so their folder is read only if it matters
        place = self._spec["environment"].get(between_attempts.CHECKPOINTS, "")
        outputs = tuple((process["name"], process["state"], process.get("active")) for process in processes)
        self._activity.see((outputs, checkpoint_files.newest_change(place) if os.path.isabs(place) else 0.0), self._watched)

    def _collect_stacks(self) -> None:
        """Collect the stacks in a thread, so that heartbeats continue. The thread records where the ranks are stuck."""
        if not self._stacks_asked:
            self._stacks_asked = True
            threading.Thread(target=lambda: self.write(stuck=stacks.collect(self._spec, self.record["started"])), daemon=True).start()

    def _is_overdue(self) -> bool:
        """Return whether this attempt is not the job's first attempt and all of its processes should have started by now.

        The controller watches the start of the first attempt.
        """
        return self._paths.attempt > 1 and self._watched > self._timeout

    def _judge(self, verdict: Verdict, processes: list[ProcessRecord]) -> Verdict | None:
        """Write the verdict unless another process has done so, and return what was written.

        Before there is a verdict, only an operator stops processes. If a process was stopped, the job is therefore not restarted. A job at
        its time limit is not restarted either, so its processes have the full stop timeout.
        """
        if not self._restarts:
            write_json(self._paths.verdict, verdict)
            return verdict
        failure = verdict["failure"]
        is_late = failure is not None and failure.get("cause", {}).get("kind") == failure_causes.TIME_LIMIT
        if verdict["state"] != SUCCEEDED and not is_late and not any(process["state"] == STOPPED for process in processes):
            verdict["restartable"] = True
        write_new_json(self._paths.verdict, verdict)
        return read_verdict(self._paths)

    def _obey(self) -> Verdict | None:
        verdict = read_verdict(self._paths)
        lead = read_record(self._paths.record(self._lead))
        if lead and self._detects_hangs:
            self._is_hurried = lead.get("suspects_hang", False)
            if lead.get("hang"):
                self._collect_stacks()
        if verdict or not (self._is_silent(lead) if lead else self._is_overdue()):
            return verdict
        if lead and not self._restarts:
            return {"state": LOST, "failure": {**lead, "state": LOST}}
        # The first process that responds takes the place of the lead.
        answering = [process["name"] for process in read_records(self._paths) if not self.is_silent(process)]
        return self._decide() if answering[:1] == [self.record["name"]] else None

    def _is_silent(self, record: ProcessRecord) -> bool:
        """Return whether the time since a process's last new heartbeat exceeds the timeout. Only this host's clock is used."""
        heartbeat, since = self._heard.get(record["name"], (0.0, 0.0))
        if heartbeat != record["heartbeat"]:
            self._heard[record["name"]] = (record["heartbeat"], self._watched)
            return False
        return bool(self._watched - since > self._timeout)


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0


def _touch(path: str) -> None:
    """Update the modification time of a record that cannot be written because the storage is full.

    The new modification time counts as a heartbeat.
    """
    try:
        os.utime(path)
    except OSError:
        pass


def heeds_health(spec: ProcessSpec) -> bool:
    """Return whether a finding of the periodic health checks, which other jobs on the host may have started, ends an attempt."""
    params = spec["parameters"]
    return bool(params["restarts"] and params["health_check"] and params["health_interval"]) and spec["part"] not in MAY_BE_LOST


def first_record(spec: ProcessSpec) -> ProcessRecord:
    now = time.time()
    record: ProcessRecord = {
        "name": spec["name"],
        "rank": spec["rank"],
        "ranks": spec["ranks"],
        "tagged": spec["tagged"],
        "part": spec["part"],
        "host": spec["host"],
        "processes": spec["processes"],
        "state": RUNNING,
        "started": now,
        "heartbeat": now,
    }
    if spec["parameters"]["restarts"]:
        record["restartable"] = True
    if spec["instance"]:
        record["instance"] = spec["instance"]
    return record
