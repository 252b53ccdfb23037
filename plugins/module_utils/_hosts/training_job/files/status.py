# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the current status of a job from its files on the shared storage, and uses the launchers to find the cause of a failure."""

from __future__ import annotations

import contextlib
import os
import time
from operator import itemgetter
from typing import Sequence, cast

from ...._job import failed_process, job_states, records, state_names
from ...._job.directories import Paths
from ...._job.documents import Explanation, Following, ProcessRecord, Verdict
from ...._job.job_status import AttemptStatus, Failure, JobStatus, ProcessStatus
from ...._launchers.base import Culprit, Launcher
from ...._launchers.registry import LAUNCHERS
from . import checkpoint_files, logs, progress

LOG_LINES = 40
# If a job has more than twice this number of attempts, only this number of the first attempts and of the last attempts are read.
ATTEMPTS_SHOWN = 50
# Maximum number of bytes to read from the end of a log. If ranks share a log, the lines of the rank that failed first may be far from the
# end of the log.
TAIL_SIZE = 1 << 18
# What is returned of the decision about what follows an attempt, so that the controller can explain it.
FACTS = ("action", "rule", *Explanation.__annotations__)
# What only supervisors need of the record of a process.
INTERNAL = ("tagged", "pid", "restartable", "available", "unfit", "rebooted", "active", "suspects_hang", "hang", "stuck")
# The number of seconds without any sign of activity from which on the status of a running job shows this time.
QUIET = 600.0


def read_status(paths: Paths, heartbeat_timeout: int, budget: records.Budget | None = None, attempt: int | None = None) -> JobStatus:
    """Return the status of one job. Raises OSError or ValueError if the directory is not a job directory.

    The status contains the processes of the newest attempt, or of `attempt` if specified. Invalid records and records beyond the size
    budget are skipped and reported in `problems`. For a job that waits in a queue, queue.complete() completes the result.
    """
    description = records.read_description(paths)
    problems: list[str] = []
    launcher = LAUNCHERS.get(description["launcher"])
    budget = budget or records.Budget()
    newest = records.newest_attempt(paths, budget)
    is_newest = attempt in (None, newest.attempt)
    verdict, found = job_states.read_attempt(newest, heartbeat_timeout, problems, budget)
    queued = records.read_queued(paths)
    state = job_states.queued_state(job_states.attempt_state(newest, found, heartbeat_timeout, verdict), queued)
    attempts = read_attempts(newest, found, state, budget, launcher)
    if attempt is not None and not is_newest:
        newest = paths.of_attempt(attempt)
        verdict, found = job_states.read_attempt(newest, heartbeat_timeout, problems, budget)
    processes = [describe(_with_cause(record, verdict), newest, launcher) for record in found]
    began, ended = _span(processes, attempts)
    result: JobStatus = {
        "name": os.path.basename(paths.directory),
        "launcher": description["launcher"],
        "created": description["created"],
        "script": description.get("script"),
        "command": description.get("command", []),
        "code": description.get("code", {}),
        "metrics": progress.last_progress(paths.progress),
        "directory": paths.directory,
        "checkpoint_directory": description.get("checkpoint_directory") or paths.checkpoints,
        "resume": description.get("resume"),
        "printed": description.get("printed", False),
        "state": state,
        "over": state_names.is_over(state),
        "process_count": processes[0]["processes"] if processes else 0,
        "processes": processes,
        "hosts": len(set(map(itemgetter("host"), job_states.participants(processes)))),
        "spares": len(job_states.standby_hosts(processes)),
        "began": began,
        "ended": ended,
        "read": time.time(),
        "attempt": newest.attempt,
        "attempts": attempts,
        "problems": problems,
    }
    if queued:
        result["queue"] = queued
    export = job_states.read_export(paths, heartbeat_timeout)
    if export:
        result["export"] = export
    # A job that is restarted has not failed, regardless of how its attempts ended.
    if is_newest and state in (state_names.FAILED, state_names.STOPPED, state_names.LOST):
        first = failed_process.last_failure(processes, verdict, records.read_following(newest))
        if first:
            result["failure"] = describe_failure(describe(first, newest, launcher), launcher)
    return result


def _span(processes: Sequence[ProcessStatus], attempts: Sequence[AttemptStatus]) -> tuple[float, float]:
    """Return when the first process of a job started, and when the last one ended or sent a heartbeat, or zeros if none has started."""
    starts = [found["started"] for found in (*processes, *attempts) if found["started"]]
    ends = [process.get("finished") or process["heartbeat"] for process in processes]
    return min(starts, default=0.0), max(ends, default=0.0)


def quiet(found: JobStatus, now: float) -> float:
    """Return for how many seconds a running job has shown no output, reported step or checkpoint, or 0 if there was a sign recently."""
    if found["state"] != state_names.RUNNING:
        return 0.0
    signs = [process.get("active", process["started"]) for process in found["processes"]]
    with contextlib.suppress(OSError):
        signs.append(os.stat(Paths(found["directory"]).progress, follow_symlinks=False).st_mtime)
    place = found["checkpoint_directory"]
    if now - max(signs, default=now) >= QUIET and os.path.isabs(place):
        signs.append(checkpoint_files.newest_change(place))  # takes time, so it is read only if it matters
    seconds = now - max(signs, default=now)
    return seconds if seconds >= QUIET else 0.0


def read_attempts(
    newest: Paths, processes: Sequence[ProcessRecord], state: str, budget: records.Budget, launcher: Launcher | None
) -> list[AttemptStatus]:
    """Return the first and the last attempts of a job, at most ATTEMPTS_SHOWN of each, oldest first.

    `processes` contains the records of the newest attempt, and `state` is the state of the job.
    """
    found = []
    for number in range(1, newest.attempt + 1):
        if ATTEMPTS_SHOWN < number <= newest.attempt - ATTEMPTS_SHOWN:
            continue
        paths = newest.of_attempt(number)
        following = records.read_following(paths, budget)
        is_newest = number == newest.attempt
        one: AttemptStatus = {
            "attempt": number,
            "state": state if is_newest else state_names.FAILED,
            "started": min((process["started"] for process in processes), default=0.0),
            "hosts": len(set(map(itemgetter("host"), job_states.participants(processes)))),
            "logs": paths.logs,
        }
        if following:
            one["started"], one["hosts"] = following.get("started", one["started"]), following.get("ran_on", one["hosts"])
            one.update(_facts(following))
            if "failure" in following:
                one["state"] = state if is_newest and state_names.is_over(state) else following["failure"]["state"]
                failure = describe(following["failure"], paths, launcher)
                one["failure"] = cast(ProcessStatus, {key: value for key, value in failure.items() if key not in INTERNAL})
        found.append(one)
    return found


def _with_cause(record: ProcessRecord, verdict: Verdict | None) -> ProcessRecord:
    """Return the record of a process. If the verdict has ended it, but it is still running, for example to save, it has the cause."""
    failure = verdict["failure"] if verdict else None
    if record["state"] != state_names.RUNNING or not failure or failure["name"] != record["name"] or "cause" not in failure:
        return record
    return {**record, "cause": failure["cause"]}


def _facts(following: Following) -> AttemptStatus:
    """Return what explains the decision about what follows an attempt, without empty values, because a job can have many attempts."""
    found = {key: value for key, value in following.items() if key in FACTS and value}
    if "set_aside" in following:
        found["set_aside"] = following["set_aside"]["name"]
    if following.get("damaged"):
        found["damaged"] = [each["name"] for each in following["damaged"]]
    return cast(AttemptStatus, {**found, "ended": following["decided"]})


def describe_failure(process: ProcessStatus, launcher: Launcher | None) -> Failure:
    """Return the process that made the job fail, with the last `lines` of its log and, if the log shows it, the rank that failed first.

    If possible, these are only lines from this rank. There are none for a process that was stopped, because its log does not show why the
    job failed, and for a rank that printed nothing.
    """
    if process["state"] == state_names.STOPPED:
        return cast(Failure, {**process, "lines": []})
    culprit, lines = failing_lines(process, process["log"], launcher, process["tag"])
    result = {**process, "lines": lines[-LOG_LINES:]}
    if culprit:
        result["culprit"] = {"rank": culprit.rank, **failed_process.outcome(culprit.status)}
    return cast(Failure, result)


def tag(record: ProcessRecord, launcher: Launcher | None) -> str:
    """Return the tag at the start of each rank's lines in the log of a process, or an empty string if the lines have no tag."""
    return launcher.tag if launcher and record.get("tagged") else ""


def failing_lines(process: ProcessRecord, log: str, launcher: Launcher | None, mark: str) -> tuple[Culprit | None, list[str]]:
    """Return the rank that failed first, if the log shows it, and the last lines of the log, if possible only the lines from this rank.

    `mark` is the tag of the lines (see tag()).
    """
    lines = logs.tail(log, TAIL_SIZE)
    asked = launcher and launcher.culprit and process["ranks"] and failed_process.ended_by_itself(process)
    found = launcher.culprit(lines) if asked and launcher and launcher.culprit else None
    if found:
        # The other lines come from the launcher.
        lines = logs.lines_of(found.rank, mark, lines) if mark else lines[: found.line]
    return found, lines


def describe(record: ProcessRecord, paths: Paths, launcher: Launcher | None) -> ProcessStatus:
    """Return a process's record with the path of its log and the tag of its lines."""
    return {**record, "log": paths.log(record["name"]), "tag": tag(record, launcher)}
