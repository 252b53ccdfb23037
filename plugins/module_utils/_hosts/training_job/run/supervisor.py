# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The supervisor, which runs in every unit of a job: starts a process, writes its record and log, and stops it when the job ends.

``run SPEC`` starts the process that the JSON file SPEC describes and returns its exit status. systemd runs ``finish SPEC`` after the
unit has ended, to complete the record if the supervisor was killed. remote.py implements the other actions. This file is copied to the
hosts together with the files that it imports, and needs only the standard library.

The job's processes watch each other through their records, without the controller. The first process, the lead, reads all
records and writes the verdict when the job is over. The other processes poll the verdict and the lead's heartbeat.

A job that may be restarted runs in one or more attempts. If an attempt fails, all supervisors end their remaining processes, and the first
supervisor that responds decides what follows (see attempts.py). The same supervisors then start the next attempt.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import ModuleType
from typing import Any, NamedTuple, cast

from ...._job import hangs, periodic_findings, recovery, schema
from ...._job.causes import first_failure, has_waited
from ...._job.definition import process_environment
from ...._job.definition.specs import plan_specs
from ...._job.directories import Paths, delete, private_directories, runtime_directories
from ...._job.documents import CauseRecord, Following, Notice, Outcome, ProcessRecord, ProcessSpec, Verdict
from ...._job.explanations import COULD_NOT_BE_STARTED, HOST_SHUT_DOWN, OUT_OF_MEMORY, describe_end, describe_outcome, outcome
from ...._job.job_states import job_state, participants
from ...._job.naming import MAY_BE_LOST, STANDBY, title
from ...._job.records import read_following, read_record, read_records, read_verdict, write_json, write_new_json
from ...._job.states import FAILED, LOST, RUNNING, STOPPED, SUCCEEDED, is_over
from ...._launchers.base import LaunchError
from ..files import checkpoint_files, logs, progress
from . import attempts, connections, host_health, notices, remote, stacks, stale_locks, storage_watch

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

# Maximum seconds between SIGTERM and SIGKILL if the job is restarted. Processes whose peers have failed cannot complete a checkpoint.
RESTART_STOP_TIMEOUT = 5

# The name of a file in a process's directory on its host. The file exists once the process's unit is ending.
ENDED = "ended"

# The message of a process that cannot listen on a port, such as that of torch: `port: 29500, ..., message: address already in use`.
IN_USE, LISTEN_PORT = re.compile(r"EADDRINUSE|[Aa]ddress already in use"), re.compile(r"(?:port:? ?|:)(\d{2,5})\b")
# Number of characters to keep of a message to which a sentence is added.
MESSAGE_LENGTH = 800

# systemd-user-sessions.service creates this file when the service is stopped. Units of jobs are ordered so that they are stopped after this
# service.
NOLOGIN = "/run/nologin"

# What systemctl prints about a host that is not shutting down, if systemctl can communicate with systemd.
ANSWERS = ("initializing", "starting", "running", "degraded", "maintenance")


class End(NamedTuple):
    """The state and the reason to record for a process that was stopped. If the state is a failure, `kind` is the `Cause.kind`."""

    state: str
    reason: str
    kind: str = ""


FROM_OUTSIDE = End(STOPPED, "was stopped by an operator (for example with stop.yml)")
# The shutdown of a host counts as a failure. An elastic job continues without the host. Any other job fails on the other hosts as a result.
SHUT_DOWN = End(FAILED, HOST_SHUT_DOWN, recovery.HOST_SHUT_DOWN)


class Watch:
    """Writes this process's record, and detects when the job is over.

    Runs in a thread, so that the supervisor can stop its process even while shared storage hangs.
    """

    def __init__(self, spec: ProcessSpec, record: ProcessRecord) -> None:
        self.record = record
        self.verdict: Verdict | None = None
        # Whether the supervisor has already begun to stop the process.
        self.is_stopping = False
        self.notice: Notice | None = None
        self._paths = Paths(spec["directory"], spec["attempt"])
        self._lead = spec["lead"]
        self._restarts = spec["restarts"]
        self._spec = spec
        self._timeout = spec["heartbeat_timeout"]
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._heard: dict[str, tuple[float, float]] = {}
        self._looked_at = time.monotonic()
        self._watched = 0.0
        self._failures_seen = 0
        self._progress_size = 0
        self._detects_hangs = bool(spec["hang_timeout"] or spec["hang_steps"]) and spec["part"] != STANDBY
        self._activity = hangs.Activity(self._watched, spec["hang_timeout"], spec["hang_steps"], spec["hang_minimum"])
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
        """Return the verdict, or None if there is none yet."""
        self._tick()
        self._note_output()
        try:
            self._refresh()
            if self.notice and self.record["state"] == RUNNING and self.record["part"] not in MAY_BE_LOST:
                return self._announce(self.notice)
            if self._heeds_health and self.record["state"] == RUNNING:
                finding = self._health.worst(time.time(), attempts.descendants)
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

    def _refresh(self) -> None:
        """Write to the directory of records, so that this host's NFS client fetches the directory again."""
        if self._restarts:
            os.utime(self._paths.status)

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
        reads_steps = self._detects_hangs and self._spec["hang_steps"] and self.record["name"] == self._lead
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
            host = attempts.still_connected(self._spec, verdict)
            if host:
                self.write(still_connected=host)
            found = attempts.raised(self._spec, self.record) if has_waited(verdict["failure"]) else None
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

    def _announce(self, notice: Notice) -> Verdict | None:
        """End the attempt because AWS will terminate this host, and return the verdict."""
        now, reason = time.time(), notices.reason(notice)
        failure: ProcessRecord = {**self.record, "state": FAILED, "finished": now, "reason": reason, "notice": notice}
        failure["cause"] = {"kind": notice["kind"], "what": reason}
        return read_verdict(self._paths) or self._judge({"state": FAILED, "failure": failure}, read_records(self._paths))

    def _end_unhealthy(self, finding: periodic_findings.PeriodicFinding) -> Verdict | None:
        """End the attempt because a health check of this host has found a problem, and return the verdict."""
        reason = f"was stopped because of a health finding on its host: {finding.message}"
        failure: ProcessRecord = {**self.record, "state": FAILED, "finished": time.time(), "reason": reason}
        failure["cause"] = {"kind": recovery.HEALTH, "what": finding.message, "name": finding.severity}
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
            why = self._activity.describe_hang(self._watched)
            if why:
                self._hang_seen = self._watched
                self.write(hang=why + stale_locks.describe(cache_environment(self._spec), self.record["started"]))
                self._collect_stacks()
            self._hurry(bool(why) or self._activity.suspects_hang(self._watched))
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
        place = self._spec["environment"].get(attempts.CHECKPOINTS, "")
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
        is_late = failure is not None and failure.get("cause", {}).get("kind") == recovery.TIME_LIMIT
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
        answering = [process for process in read_records(self._paths) if not self.is_silent(process)]
        return self._decide() if answering and answering[0]["name"] == self.record["name"] else None

    def _is_silent(self, record: ProcessRecord) -> bool:
        """Return whether the time since a process's last new heartbeat exceeds the timeout. Only this host's clock is used."""
        heartbeat, since = self._heard.get(record["name"], (0.0, 0.0))
        if heartbeat != record["heartbeat"]:
            self._heard[record["name"]] = (record["heartbeat"], self._watched)
            return False
        return bool(self._watched - since > self._timeout)


class Supervisor:
    """Supervises one process, from its start to its final record.

    If the spec has no `argv`, the process runs the commands that other hosts send (see remote.py).
    """

    def __init__(self, spec: ProcessSpec, path: str) -> None:
        self.directory = os.path.dirname(path)
        self.path = path
        self.leaving: End | None = None
        self.notice: Notice | None = None
        self.time_limit_at = time.monotonic() + spec["time_limit"] if spec["time_limit"] else float("inf")
        self.before = attempts.known(spec) if spec["restarts"] else attempts.TrainingState([], None)
        self.storage = storage_watch.StorageWatch()
        self.begin(spec)

    def begin(self, spec: ProcessSpec) -> None:
        """Prepare an attempt."""
        self.child: subprocess.Popen[bytes] | None = None
        self.ended: End | None = None
        self.kill_at: float | None = None
        self.spec = spec
        self.paths = Paths(spec["directory"], spec["attempt"])
        self.argv = spec["argv"] or [sys.executable, sys.argv[0], "serve", self.path]
        self.oom_kills = attempts.count_oom_kills()
        self.watch = Watch(spec, {**first_record(spec), "pid": os.getpid()})
        self.watch.notice = self.notice

    def run(self, rejoins: bool = False) -> int:
        """Run the process until it ends, and return the exit status for the unit. The lead returns only when the job is over.

        If the job may be restarted, each supervisor returns only when the job is over, or when the job continues without the supervisor's
        process. A supervisor that `rejoins` begins with the attempt after the one that the host has left to reboot.
        """
        signal.signal(signal.SIGTERM, lambda *_: self.leave(SHUT_DOWN if is_shutting_down() else FROM_OUTSIDE))
        if self.spec["restarts"]:
            attempts.adopt_descendants()
        notices.Notices(self.receive, self.spec["capacity_end"]).start()
        metrics = None
        status, spec = 0, self.rejoin() if rejoins else self.spec
        while spec is not None:
            if spec is not self.spec:
                self.begin(spec)
            writer = metrics_writer(self.spec)
            metrics = metrics or (writer and writer.start(self.spec))
            status = self.run_attempt()
            spec = self.recover()
        return status

    def rejoin(self) -> ProcessSpec | None:
        """Take part in the recovery of the attempt that this host has left to reboot, and return the spec of the next attempt.

        Return None if the job is over or continues without this process.
        """
        spec: ProcessSpec | None = {**self.spec, "rejoins": False}
        while spec is not None:
            self.begin(spec)
            following = read_following(self.paths)
            if following is None:
                break
            spec = self.plan_next(following.get("hosts") or []) if following["action"] == recovery.RESTART else None
        record, verdict = read_record(self.paths.record(self.spec["name"])), read_verdict(self.paths)
        if spec is None or not verdict or not record or not record.get("unfit", {}).get("reboots") or record["host"] != spec["host"]:
            return None
        self.write_spec(spec)
        self.before = attempts.known(spec)
        self.watch.record, self.watch.verdict = {**record, "pid": os.getpid()}, verdict
        self.watch.start()
        return self.recover(rebooted=True)

    def run_attempt(self) -> int:
        """Run the process of one attempt until it ends, and return the exit status for the unit."""
        for directory in (self.paths.logs, self.paths.stacks, self.paths.status):
            os.makedirs(directory, exist_ok=True)
        self.watch.write()
        environment, problem = process_environment.process_environment(self.spec)
        first = (environment.get(attempts.CHECKPOINTS, ""), self.paths.directory, self.paths.logs, self.spec["cwd"])
        self.storage.start(storage_watch.directories(first, environment))
        with open(self.paths.log(self.spec["name"]), "ab", buffering=0) as log:
            if problem:
                log.write(
                    f"The variables of {process_environment.PROFILE} are missing, because the login shell failed: {problem}.\n".encode()
                )
            try:
                self.child = subprocess.Popen(
                    self.argv,
                    cwd=self.spec["cwd"],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            except OSError as error:
                reason = f"{COULD_NOT_BE_STARTED}: {error.strerror}: {error.filename!r}"
                status = self.finish(FAILED, recovery.NOT_STARTED, exit_code=127, reason=reason)
                if self.spec["restarts"]:
                    self.watch.start()
            else:
                if self.leaving:
                    self.stop(self.leaving)
                self.watch.start()
                status = self.finished(self.wait(self.child))
        if self.spec["name"] == self.spec["lead"] or self.spec["restarts"]:
            self.attend()
        return status

    def is_ending(self) -> bool:
        """Return whether this process can no longer take part in a restart."""
        self.heed_notice()
        return bool(self.leaving) or self.is_late()

    def recover(self, rebooted: bool = False) -> ProcessSpec | None:
        """Return the spec of the next attempt, or None if the job is over or continues without this process.

        If this host must be rebooted and reboots itself, the supervisor ends, and the host starts it again after the boot.
        """
        verdict = self.watch.verdict
        try:
            if not verdict or not verdict.get("restartable"):
                return None
            if not attempts.end_descendants():
                sys.stderr.write("processes of the job did not end after SIGKILL, so this host cannot take part in a restart\n")
                self.watch.write(available=False)
                return None
            ready = time.time()
            is_fit = self.is_fit(rebooted)
            recovery_of_job = attempts.Recovery(self.spec, self.before, self.watch.is_silent, self.is_ending)
            if not is_fit:
                recovery_of_job.conclude(verdict)
                return None
            following = recovery_of_job.following(verdict)
            if following is None:
                if not self.leaving:
                    self.decline(recovery.TIME_LIMIT)
                return None
            sys.stderr.write(attempts.sentence(verdict, following, self.spec["attempt"]) + "\n")
            if following["action"] == recovery.STOP:
                return None
            clean_up(self.spec, ready)
            self.set_aside(following)
            return self.next_spec(following.get("hosts") or [])
        finally:
            if self.leaving and self.spec["restarts"]:
                self.decline(recovery.OPERATOR if self.leaving == FROM_OUTSIDE else "")
                if verdict and verdict.get("restartable"):
                    attempts.Recovery(self.spec, self.before, self.watch.is_silent, self.is_ending).conclude(verdict)
            self.watch.stop()

    def is_fit(self, rebooted: bool) -> bool:
        """Record whether this host may run the next attempt. Return False if this supervisor must end so that the host reboots."""
        unfit = host_health.find_unfit(self.spec, self.is_ending)
        stays = not (unfit and unfit.get("reboots"))
        changes = {"unfit": unfit} if unfit else {"rebooted": True} if rebooted else {}
        self.watch.write(available=stays and self.leaving is None, **changes)
        return stays

    def is_late(self, margin: float = 0) -> bool:
        """Return whether the job reached its time limit at least `margin` seconds ago."""
        return time.monotonic() >= self.time_limit_at + margin

    def decline(self, rule: str) -> None:
        """Tell the other supervisors that this supervisor is about to end. If a rule is specified, record that the rule ends the job."""
        self.watch.write(available=False)
        if rule:
            with contextlib.suppress(OSError):
                write_new_json(self.paths.following, {"action": recovery.STOP, "rule": rule, "decided": time.time()})

    def set_aside(self, following: Following) -> None:
        """Set aside the checkpoints that a decision names."""
        checkpoints = [*following.get("damaged", []), *([following["set_aside"]] if "set_aside" in following else [])]
        for checkpoint in checkpoints:
            try:
                checkpoint_files.set_aside(self.spec["environment"][attempts.CHECKPOINTS], checkpoint)
            except (OSError, ValueError) as error:
                sys.stderr.write("cannot set checkpoint {} aside: {}\n".format(checkpoint["name"], error))

    def next_spec(self, hosts: list[str]) -> ProcessSpec | None:
        """Prepare this unit for the next attempt, and return its spec. Return None if the unit takes no part in the attempt."""
        spec = self.plan_next(hosts)
        if spec is not None:
            self.write_spec(spec)
        self.before = attempts.known(self.spec)
        return spec

    def plan_next(self, hosts: list[str]) -> ProcessSpec | None:
        """Return this unit's spec of the next attempt, or None if the unit takes no part in the attempt."""
        try:
            return attempts.next_spec(self.spec, hosts, self.directory)
        except LaunchError as error:
            # The supervisor that decided has checked this. So a process of the job has changed the decision, or an operator has started the
            # job again with other units.
            sys.stderr.write(f"{self.paths.following} cannot be followed: {error}\n")
            return None

    def write_spec(self, spec: ProcessSpec) -> None:
        """Write the spec of an attempt to the files that the unit's other programs read."""
        schema.replace_private(self.path, json.dumps(spec))
        schema.replace_private(os.path.join(self.directory, "hostfile"), spec["hostfile"])

    def receive(self, notice: Notice) -> None:
        """Store a notice that AWS will terminate this host. The watch's thread ends the attempt. The main thread calls heed_notice()."""
        self.notice = self.watch.notice = notice

    def heed_notice(self) -> None:
        """If AWS is about to terminate this host, stop the process and take no part in later attempts."""
        if self.notice and not self.leaving:
            self.leave(End(FAILED, notices.reason(self.notice), self.notice["kind"]))

    def leave(self, end: End) -> None:
        """Stop the process, and take no part in later attempts."""
        self.leaving = end
        self.stop(end)

    def stop(self, end: End) -> None:
        """Send SIGTERM to the process. wait() kills it after the stop timeout."""
        self.ended = self.ended or end
        self.watch.is_stopping = True
        if self.child is not None and self.kill_at is None:
            self.kill_at = time.monotonic() + self.stop_timeout()
            self.child.terminate()

    def stop_timeout(self) -> float:
        """Return the number of seconds between SIGTERM and SIGKILL. The number is smaller if another attempt follows.

        If AWS will terminate a host of the job, all processes have the time that is left to save a checkpoint.
        """
        verdict = self.watch.verdict
        notice = self.notice or (verdict and verdict["failure"] and verdict["failure"].get("notice"))
        if notice:
            return notices.time_to_save(notice, time.time())
        timeout = self.spec["stop_timeout"]
        return min(timeout, RESTART_STOP_TIMEOUT) if verdict and verdict.get("restartable") and not self.leaving else timeout

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """Wait for the process to end, and return its return code.

        If the code is negative, its absolute value is the number of the signal that killed the process.
        """
        end = self.time_limit_at
        while True:
            now = time.monotonic()
            if now >= end:
                self.stop(End(FAILED, "reached its time limit of {} s".format(self.spec["time_limit"]), recovery.TIME_LIMIT))
            self.heed_notice()
            if self.watch.verdict:
                self.stop(end_for(self.watch.verdict, self.spec["name"]))
            if self.kill_at is not None and now >= self.kill_at:
                child.kill()
            if self.spec["restarts"]:
                attempts.reap(child.pid)
            try:
                # Use a short timeout, so that a change to kill_at takes effect soon.
                return child.wait(timeout=min(0.5, max(0.0, end - now) or 0.5))
            except subprocess.TimeoutExpired:
                pass

    def finished(self, code: int) -> int:
        """Record how the process ended."""
        if self.ended:
            return self.finish(self.ended.state, self.ended.kind, reason=self.reason(self.ended), **outcome(code))
        return self.finish(FAILED if code else SUCCEEDED, **outcome(code))

    def reason(self, ended: End) -> str:
        """Return why the process was stopped. If an operator stops a job that has already failed, the failure is the reason that is
        returned.
        """
        if ended == FROM_OUTSIDE:
            with contextlib.suppress(OSError):
                failure = first_failure(read_records(self.paths))
                if failure and failure["state"] == FAILED:
                    return end_for({"state": FAILED, "failure": failure}).reason
        return ended.reason

    def finish(self, state: str, kind: str = "", **how: Any) -> int:
        """Write the final record and return the exit status for the unit.

        `kind` is the `Cause.kind` of a failure, or an empty string if it is unknown.
        """
        finished = time.time()  # set the time before the log is read, because the times at which processes ended are compared
        kills = attempts.oom_kills_since(self.oom_kills)
        if state == FAILED:
            found = cast(ProcessRecord, {**self.watch.record, "state": state, **how})
            reason = attempts.find_cause(self.spec, found, kind, kills)
            how["cause"] = attempts.blame_storage(name_listener(reason), self.storage.problems)
        if kills and not kind and state != STOPPED:  # a script that loses a data loader can end with status 0
            how["reason"] = f"{describe_outcome(cast(Outcome, how))} {OUT_OF_MEMORY}"
        self.watch.write(state=state, finished=finished, **how)
        if state in (SUCCEEDED, STOPPED):
            return 0
        return how.get("exit_code") or 1

    def attend(self) -> None:
        """Wait until the attempt is over. If an operator stops this process, poll only a few times, without waiting.

        After the time limit, all processes end within the stop timeout, and processes without a heartbeat count as lost. After this time,
        the function therefore returns even without a verdict.
        """
        looks = 0
        while not (self.watch.verdict or self.is_late(self.spec["stop_timeout"] + self.spec["heartbeat_timeout"])):
            stopped = self.leaving is not None if self.spec["restarts"] else self.ended is not None and self.ended.state == STOPPED
            if stopped and looks >= POLLS_OF_FAILURE:
                return
            self.watch.verdict = self.watch.poll()
            looks += 1
            if not (self.watch.verdict or stopped):
                time.sleep(POLL_INTERVAL / 2)


def metrics_writer(spec: ProcessSpec) -> ModuleType | None:
    """Return the module that writes the job's metrics on this host, or None if this supervisor writes no metrics.

    Loading the module takes a tenth of a second, so the start of a job without metrics does not load it.
    """
    if not spec["metrics_directory"] or spec["name"] != spec["lead"]:
        return None
    from . import host_metrics  # pylint: disable=import-outside-toplevel

    return host_metrics


def name_listener(found: CauseRecord) -> CauseRecord:
    """Return the cause of a failure. If the process could not listen on a port, the message says which process does."""
    message = found.get("message", "")
    port = LISTEN_PORT.search(message) if IN_USE.search(message) else None
    listener = connections.listener(int(port[1])) if port else ""
    return {**found, "message": f"{message[:MESSAGE_LENGTH]} ({listener} listens on port {port[1]})"} if port and listener else found


def is_shutting_down(nologin: str = NOLOGIN) -> bool:
    """Return whether systemd is shutting down this host.

    In the sandbox, systemctl cannot communicate with systemd. The file `nologin`, with which systemd prevents users from logging in, exists
    during a shutdown.
    """
    try:
        found = subprocess.run(
            ["systemctl", "is-system-running"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=False
        )
        state = found.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        state = ""
    return state == "stopping" or (state not in ANSWERS and os.path.exists(nologin))


def _size(path: str) -> int:
    """Return the size of a file in bytes, or 0 if there is none."""
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


def clean_up(spec: ProcessSpec, before: float) -> None:
    """Delete what an attempt that ended before the given time (in seconds since 1970) has left on this host.

    This includes the files in the job's private directories, and the locks in the caches of its user. Every process that may have written
    these files has ended. Processes of the next attempt may already have started, and may have set the modification times of their files.
    """
    for directory in private_directories(spec["job"]).values():
        with contextlib.suppress(OSError):
            paths = [os.path.join(directory, name) for name in os.listdir(directory)]
            delete([path for path in paths if os.lstat(path).st_ctime < before])
    stale_locks.delete(cache_environment(spec), before)


def cache_environment(spec: ProcessSpec) -> dict[str, str]:
    """Return the variables that determine the places of caches."""
    return {**os.environ, **spec["environment"]}


def heeds_health(spec: ProcessSpec) -> bool:
    """Return whether a finding of the periodic health checks, which other jobs on the host may have started, ends an attempt."""
    params = spec["parameters"]
    is_chosen = spec["restarts"] > 0 and params.get("health_check") and params.get("health_interval")
    return bool(is_chosen) and spec["part"] not in MAY_BE_LOST


def first_record(spec: ProcessSpec) -> ProcessRecord:
    """Return the record of a process that is starting."""
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
    if spec["restarts"]:
        record["restartable"] = True
    if spec["instance"]:
        record["instance"] = spec["instance"]
    return record


def end_for(verdict: Verdict, process: str = "") -> End:
    """Return the final state and the reason of a process that was still running when the job ended."""
    failure = verdict["failure"]
    if failure is None:
        return End(SUCCEEDED, "ended with the job")
    kind = failure.get("cause", {}).get("kind", "")
    if failure["name"] == process and kind in (recovery.HANG, recovery.HEALTH, *recovery.ANNOUNCED):
        return End(FAILED, describe_end(failure), kind)
    return End(STOPPED, "was stopped because {} on {} {}".format(title(failure["name"]), failure["host"], describe_end(failure)))


def finish(spec: ProcessSpec, result: str, status: str) -> None:
    """Complete the record of a unit whose supervisor was killed. `result` and `status` are systemd's SERVICE_RESULT and EXIT_STATUS.

    The records are those of a new job if the job was deleted and started again with the same name while this host could not be reached.
    """
    paths = Paths(spec["directory"], spec["attempt"])
    record = read_record(paths.record(spec["name"])) or first_record(spec)
    if spec.get("rejoins") or record["host"] != spec["host"]:
        return
    if is_over(record["state"]):
        verdict = read_verdict(paths)
        if spec["restarts"] and record.get("available") is not False and (not verdict or verdict.get("restartable")):
            write_json(paths.record(spec["name"]), {**record, "available": False})
        return
    now = time.time()
    reason = f"was killed by the system: {result} ({status})"
    record = {**record, "state": FAILED, "finished": now, "heartbeat": now, "reason": reason, "available": False}
    record["cause"] = {"kind": recovery.KILLED, "what": reason}
    write_json(paths.record(spec["name"]), record)
    if spec["name"] == spec["lead"]:
        verdict = {"state": FAILED, "failure": record}
        if spec["restarts"]:
            verdict["restartable"] = True
        write_new_json(paths.verdict, verdict)


def clean_up_last(spec: ProcessSpec, path: str) -> None:
    """Delete what the job has left on this host if all units of the job on this host have ended."""
    with open(os.path.join(os.path.dirname(path), ENDED), "w", encoding="utf-8"):
        pass
    if all(os.path.exists(os.path.join(directory, ENDED)) for directory in runtime_directories(spec["job"])):
        stale_locks.delete(cache_environment(spec), time.time())
        errors = []
        for directory in private_directories(spec["job"]).values():
            try:
                delete([os.path.join(directory, name) for name in os.listdir(directory)])
            except FileNotFoundError:
                pass
            except OSError as error:  # for example because code in /tmp is still mounted
                errors.append(error)
        if errors:
            raise errors[0]


def main(arguments: list[str]) -> int:
    action, path, rest = arguments[0], arguments[1], arguments[2:]
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    if action in ("run", "rejoin"):
        return Supervisor(spec, path).run(rejoins=action == "rejoin")
    if action == "finish":
        try:
            finish(spec, os.environ.get("SERVICE_RESULT", ""), os.environ.get("EXIT_STATUS", ""))
            writer = metrics_writer(spec)
            if writer:
                writer.write(spec, is_last=True)
        finally:
            try:
                clean_up_last(spec, path)
            except OSError as error:
                sys.stderr.write(f"cannot delete the job's temporary files: {error}. The next job on this host deletes these files.\n")
        return 0
    return remote.main(action, spec, rest)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
