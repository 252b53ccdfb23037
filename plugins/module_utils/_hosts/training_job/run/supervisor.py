# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The supervisor, which runs in every unit of a job: starts a process, writes its record and log, and stops it when the job ends.

``run SPEC`` starts the process that the JSON file SPEC describes and returns its exit status. systemd runs ``finish SPEC`` after the
unit has ended, to complete the record if the supervisor was killed. remote_shell.py implements the other actions. This file is copied to
the hosts together with the files that it imports, and needs only the standard library.

The job's processes watch each other through their records, without the controller. The first process, the lead, reads all
records and writes the verdict when the job is over. The other processes poll the verdict and the lead's heartbeat.

A job that may be restarted runs in one or more attempts. If an attempt fails, all supervisors end their remaining processes, and the first
supervisor that responds decides what follows (see between_attempts.py). The same supervisors then start the next attempt.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from types import ModuleType
from typing import Any, cast

from ...._files import replace_file
from ...._job import failure_causes, recovery
from ...._job.definition import process_environment
from ...._job.directories import Paths
from ...._job.documents import CauseRecord, Following, ProcessRecord, ProcessSpec
from ...._job.failed_process import first_failure, outcome
from ...._job.records import read_following, read_record, read_records, read_verdict, write_new_json
from ...._job.state_names import FAILED, STOPPED, SUCCEEDED
from ...._launchers.base import LaunchError
from ..files import checkpoint_files
from . import (
    between_attempts,
    descendant_processes,
    host_health,
    oom_kills,
    process_failures,
    process_watch,
    remote_shell,
    storage_watch,
    termination_notices,
)
from .end_reasons import FROM_OUTSIDE, SHUT_DOWN, End, end_for, finish, is_shutting_down, name_listener
from .leftovers import clean_up, clean_up_last
from .process_watch import POLLS_OF_FAILURE, Watch, first_record

# Maximum seconds between SIGTERM and SIGKILL if the job is restarted. Processes whose peers have failed cannot complete a checkpoint.
RESTART_STOP_TIMEOUT = 5


class Supervisor:
    """Supervises one process, from its start to its final record.

    If the spec has no `argv`, the process runs the commands that other hosts send (see remote_shell.py).
    """

    def __init__(self, spec: ProcessSpec, path: str) -> None:
        self.directory = os.path.dirname(path)
        self.path = path
        self.leaving: End | None = None
        self.notice: CauseRecord | None = None
        limit = spec["parameters"]["time_limit"]
        self.time_limit_at = time.monotonic() + limit - spec["elapsed"] if limit else float("inf")
        self.before = between_attempts.known(spec) if spec["parameters"]["restarts"] else between_attempts.TrainingState([], None)
        self.storage = storage_watch.StorageWatch()
        self.begin(spec)

    def begin(self, spec: ProcessSpec) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.ended: End | None = None
        self.kill_at: float | None = None
        self.spec, self.parameters = spec, spec["parameters"]
        self.paths = Paths(spec["directory"], spec["attempt"])
        self.argv = spec["argv"] or [sys.executable, sys.argv[0], "serve", self.path]
        self.oom_kills = oom_kills.count_oom_kills()
        self.watch = Watch(spec, {**first_record(spec), "pid": os.getpid()})
        self.watch.notice = self.notice

    def run(self, rejoins: bool = False) -> int:
        """Run the process until it ends, and return the exit status for the unit. The lead returns only when the job is over.

        If the job may be restarted, each supervisor returns only when the job is over, or when the job continues without the supervisor's
        process. A supervisor that `rejoins` begins with the attempt after the one that the host has left to reboot.
        """
        signal.signal(signal.SIGTERM, lambda *_: self.leave(SHUT_DOWN if is_shutting_down() else FROM_OUTSIDE))
        if self.parameters["restarts"]:
            descendant_processes.adopt_descendants()
        termination_notices.Notices(self.receive, self.spec["capacity_end"]).start()
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
            spec = self.plan_next(following.get("hosts", [])) if following["action"] == recovery.RESTART else None
        record, verdict = read_record(self.paths.record(self.spec["name"])), read_verdict(self.paths)
        if spec is None or not verdict or not record or not record.get("unfit", {}).get("reboots") or record["host"] != spec["host"]:
            return None
        self.write_spec(spec)
        self.before = between_attempts.known(spec)
        self.watch.record, self.watch.verdict = {**record, "pid": os.getpid()}, verdict
        self.watch.start()
        return self.recover(rebooted=True)

    def run_attempt(self) -> int:
        """Run the process of one attempt until it ends, and return the exit status for the unit."""
        for directory in (self.paths.logs, self.paths.stacks, self.paths.status):
            os.makedirs(directory, exist_ok=True)
        self.watch.write()
        environment, problem = process_environment.process_environment(self.spec)
        first = (environment.get(between_attempts.CHECKPOINTS, ""), self.paths.directory, self.paths.logs, self.spec["cwd"])
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
                what = f"{error.strerror}: {error.filename!r}"[: failure_causes.WHAT_LIMIT]
                name = str(error.filename)[: failure_causes.NAME_LIMIT]
                cause: CauseRecord = {"kind": failure_causes.NOT_STARTED, "what": what, "name": name}
                status = self.finish(End(FAILED, cause), exit_code=127)
                if self.parameters["restarts"]:
                    self.watch.start()
            else:
                if self.leaving:
                    self.stop(self.leaving)
                self.watch.start()
                status = self.finished(self.wait(self.child))
        if self.spec["name"] == self.spec["lead"] or self.parameters["restarts"]:
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
            if not descendant_processes.end_descendants():
                sys.stderr.write("processes of the job did not end after SIGKILL, so this host cannot take part in a restart\n")
                self.watch.write(available=False)
                return None
            ready = time.time()
            is_fit = self.is_fit(rebooted)
            recovery_of_job = between_attempts.Recovery(self.spec, self.before, self.watch.is_silent, self.is_ending)
            if not is_fit:
                recovery_of_job.conclude(verdict)
                return None
            following = recovery_of_job.following(verdict)
            if following is None:
                if not self.leaving:
                    self.decline()
                return None
            sys.stderr.write(between_attempts.summary(verdict, following) + "\n")
            if following["action"] == recovery.STOP:
                return None
            clean_up(self.spec, ready)
            self.set_aside(following)
            return self.next_spec(following.get("hosts", []))
        finally:
            if self.leaving and self.parameters["restarts"]:
                self.decline()
                if verdict and verdict.get("restartable"):
                    between_attempts.Recovery(self.spec, self.before, self.watch.is_silent, self.is_ending).conclude(verdict)
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

    def decline(self) -> None:
        """Tell the other supervisors that this supervisor is about to end. If an operator or the time limit ends the job, record that."""
        self.watch.write(available=False)
        rule = failure_causes.TIME_LIMIT if not self.leaving else failure_causes.OPERATOR if self.leaving == FROM_OUTSIDE else ""
        if rule:
            with contextlib.suppress(OSError):
                write_new_json(self.paths.following, {"action": recovery.STOP, "rule": rule, "decided": time.time()})

    def set_aside(self, following: Following) -> None:
        checkpoints = [*following.get("damaged", []), *([following["set_aside"]] if "set_aside" in following else [])]
        for checkpoint in checkpoints:
            try:
                checkpoint_files.set_aside(self.spec["environment"][between_attempts.CHECKPOINTS], checkpoint)
            except (OSError, ValueError) as error:
                sys.stderr.write("cannot set checkpoint {} aside: {}\n".format(checkpoint["name"], error))

    def next_spec(self, hosts: list[str]) -> ProcessSpec | None:
        """Prepare this unit for the next attempt, and return its spec. Return None if the unit takes no part in the attempt."""
        spec = self.plan_next(hosts)
        if spec is not None:
            self.write_spec(spec)
        self.before = between_attempts.known(self.spec)
        return spec

    def plan_next(self, hosts: list[str]) -> ProcessSpec | None:
        """Return this unit's spec of the next attempt, or None if the unit takes no part in the attempt."""
        try:
            return between_attempts.next_spec(self.spec, hosts, self.directory)
        except LaunchError as error:
            # The supervisor that decided has checked this. So a process of the job has changed the decision, or an operator has started the
            # job again with other units.
            sys.stderr.write(f"{self.paths.following} cannot be followed: {error}\n")
            return None

    def write_spec(self, spec: ProcessSpec) -> None:
        """Write the spec of an attempt to the files that the unit's other programs read."""
        replace_file(self.path, json.dumps(spec).encode())
        replace_file(os.path.join(self.directory, "hostfile"), spec["hostfile"].encode())

    def receive(self, notice: CauseRecord) -> None:
        """Store a notice that AWS will terminate this host. The watch's thread ends the attempt. The main thread calls heed_notice()."""
        self.notice = self.watch.notice = notice

    def heed_notice(self) -> None:
        """If AWS is about to terminate this host, stop the process and take no part in later attempts."""
        if self.notice and not self.leaving:
            self.leave(End(FAILED, self.notice))

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
        cause = self.notice or (verdict and verdict["failure"] and verdict["failure"].get("cause"))
        if cause and "deadline" in cause:
            return termination_notices.time_to_save(cause["deadline"], time.time())
        timeout: int = self.parameters["stop_timeout"]
        return min(timeout, RESTART_STOP_TIMEOUT) if verdict and verdict.get("restartable") and not self.leaving else timeout

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """Wait for the process to end, and return its return code.

        If the code is negative, its absolute value is the number of the signal that killed the process.
        """
        end = self.time_limit_at
        while True:
            now = time.monotonic()
            if now >= end:
                self.stop(End(FAILED, {"kind": failure_causes.TIME_LIMIT, "limit": self.parameters["time_limit"]}))
            self.heed_notice()
            if self.watch.verdict:
                self.stop(end_for(self.watch.verdict, self.spec["name"]))
            if self.kill_at is not None and now >= self.kill_at:
                child.kill()
            if self.parameters["restarts"]:
                descendant_processes.reap(child.pid)
            try:
                # Use a short timeout, so that a change to kill_at takes effect soon.
                return child.wait(timeout=min(0.5, max(0.0, end - now) or 0.5))
            except subprocess.TimeoutExpired:
                pass

    def finished(self, code: int) -> int:
        return self.finish(self.end(self.ended) if self.ended else End(FAILED if code else SUCCEEDED), **outcome(code))

    def end(self, ended: End) -> End:
        """Return the end of a process that was stopped. If an operator stops a job that has already failed, the failure is why."""
        if ended == FROM_OUTSIDE:
            with contextlib.suppress(OSError):
                failure = first_failure(read_records(self.paths))
                if failure and failure["state"] == FAILED:
                    return end_for({"state": FAILED, "failure": failure})
        return ended

    def finish(self, end: End, **how: Any) -> int:
        """Write the final record and return the exit status for the unit. The log says what the cause is if the end does not."""
        finished = time.time()  # set the time before the log is read, because the times at which processes ended are compared
        state, kills = end.state, oom_kills.oom_kills_since(self.oom_kills)
        if end.stopped_for:
            how["stopped_for"] = end.stopped_for
        if kills is not None and not end.cause and state != STOPPED:  # a script that loses a data loader can end with status 0
            how["oom_kills"] = kills
        if state == FAILED:
            found = cast(ProcessRecord, {**self.watch.record, "state": state, **how})
            cause = end.cause or process_failures.find_cause(self.spec, found)
            how["cause"] = process_failures.blame_storage(name_listener(cause), self.storage.problems)
            limit = self.parameters["cost_limit"]
            if limit and cause["kind"] == failure_causes.TIME_LIMIT:
                seconds = self.parameters["time_limit"] + time.monotonic() - self.time_limit_at
                earlier = limit.get("earlier", 0.0)  # a job in a queue can be older than this key
                cost = {"limit": limit["amount"], "currency": limit["currency"], "seconds": seconds, "earlier": earlier}
                how["cause"]["cost"] = {**cost, "spent": earlier + limit["hourly"] * seconds / 3600}
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
        while not (self.watch.verdict or self.is_late(self.parameters["stop_timeout"] + self.parameters["heartbeat_timeout"])):
            stopped = self.leaving is not None if self.parameters["restarts"] else self.ended is not None and self.ended.state == STOPPED
            if stopped and looks >= POLLS_OF_FAILURE:
                return
            self.watch.verdict = self.watch.poll()
            looks += 1
            if not (self.watch.verdict or stopped):
                time.sleep(process_watch.POLL_INTERVAL / 2)


def metrics_writer(spec: ProcessSpec) -> ModuleType | None:
    """Return the module that writes the job's metrics on this host, or None if this supervisor writes no metrics.

    Loading the module takes a tenth of a second, so the start of a job without metrics does not load it.
    """
    if not spec["parameters"]["metrics_directory"] or spec["name"] != spec["lead"]:
        return None
    from . import host_metrics  # pylint: disable=import-outside-toplevel

    return host_metrics


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
    return remote_shell.main(action, spec, rest)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
