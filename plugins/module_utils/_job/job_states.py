# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The states of jobs and processes, derived from their records."""

from __future__ import annotations

import time
from typing import Sequence, TypeVar, cast

from . import recovery, schema
from .directories import Paths
from .document_schemas import EXPORT
from .documents import Export, Following, ProcessRecord, Queued, Verdict
from .failed_process import cause, first_failure, last_moment
from .naming import MAY_BE_LOST, SERVICE, SPARE, STANDBY, WORKER
from .records import Budget, newest_attempt, read_following, read_records, read_verdict
from .state_names import FAILED, LOST, PENDING, QUEUED, RUNNING, STOPPED, SUCCEEDED, WAITING

# Maximum clock difference between hosts, in seconds. Without this limit, a process with a heartbeat in the far future would seem alive
# for years.
CLOCK_LIMIT = 300
# In seconds. A job starts right after it is prepared, unless a host rejects the job or the run is interrupted.
START_TIMEOUT = 600

# The states of processes that decide the state of a job, by the parts of the processes, most important first. Losing a process that may be
# lost does not end the job, but stopping such a process does. A job does not wait for services.
DECIDING = {
    WORKER: (FAILED, LOST, STOPPED, RUNNING),
    SERVICE: (FAILED, LOST, STOPPED),
    SPARE: (STOPPED, RUNNING),
    STANDBY: (STOPPED,),
}


def attempt_state(paths: Paths, processes: Sequence[ProcessRecord], heartbeat_timeout: float, verdict: Verdict | None) -> str:
    """Return the state of a job, based on the records and the verdict of its newest attempt. The records are results of with_state().

    A failed job that may be restarted counts as running until its supervisors decide to stop it, or until they have sent no heartbeat for
    `heartbeat_timeout` seconds.
    """
    if paths.attempt > 1 and not processes:
        return RUNNING if _answers([], read_following(paths.of_attempt(paths.attempt - 1)), heartbeat_timeout) else LOST
    following = read_following(paths)
    state = final_state(verdict, processes, following)
    may_restart = verdict.get("restartable") if verdict else any(process.get("restartable") for process in processes)
    if state not in (FAILED, LOST) or not may_restart or (following and following["action"] == recovery.STOP):
        return state
    return RUNNING if _answers(processes, following, heartbeat_timeout) else state


def final_state(verdict: Verdict | None, processes: Sequence[ProcessRecord], following: Following | None) -> str:
    state = verdict["state"] if verdict else job_state(processes)
    if state not in (FAILED, LOST):
        return state
    failure = verdict["failure"] if verdict else first_failure(processes)
    return decided_state(state, following) or failed_state(state, processes, failure)


def decided_state(state: str, following: Following | None) -> str:
    """Return the final state of an attempt without success if the hosts have decided to end the job, otherwise an empty string.

    The hosts have then waited for the heartbeats that they needed to know the cause. A stop by an operator does not change the state.
    """
    if not following or following["action"] != recovery.STOP:
        return ""
    found = following["failure"]["state"] if "failure" in following else state
    return found if found in (FAILED, LOST) else state


def failed_state(state: str, processes: Sequence[ProcessRecord], failure: ProcessRecord | None) -> str:
    """Return the final state of an attempt without success: `lost` if a process without heartbeats has caused its end, otherwise `failed`.

    If a host disappears, it is a race whether other processes fail first or the host's heartbeat becomes too old. The state is therefore
    that of the cause, and the attempt counts as running until the cause is known: until each process that the records show as running has
    sent a heartbeat after the failure, has ended, or is lost. `failure` is the process that the verdict names, or the first failure, and
    `state` is the state of the attempt according to it.
    """
    if failure is None or failure["state"] not in (FAILED, LOST):  # written by the job itself
        return state
    if failure["state"] == LOST:  # the process's host may have recorded its end since
        failure = next((each for each in processes if (each["name"], each["state"]) == (failure["name"], FAILED)), failure)
    moment = last_moment(failure)
    if any(each["state"] == RUNNING and each["heartbeat"] < moment and each["part"] not in MAY_BE_LOST for each in processes):
        return RUNNING
    found = cause(processes, failure)
    return found["state"] if found else state


def _answers(processes: Sequence[ProcessRecord], decision: Following | None, heartbeat_timeout: float) -> bool:
    """Return whether a supervisor that can start another attempt has sent a heartbeat, or the decision was made, within the timeout."""
    decided = decision["decided"] if decision else 0.0
    last = max([decided, *(process["heartbeat"] for process in processes if process.get("available", True))])
    return -CLOCK_LIMIT <= time.time() - last <= heartbeat_timeout


def read_state(paths: Paths, heartbeat_timeout: float) -> str:
    newest = newest_attempt(paths)
    verdict, processes = read_attempt(newest, heartbeat_timeout)
    return attempt_state(newest, processes, heartbeat_timeout, verdict)


def read_attempt(
    paths: Paths, heartbeat_timeout: float, problems: list[str] | None = None, budget: Budget | None = None
) -> tuple[Verdict | None, list[ProcessRecord]]:
    """Return the verdict of an attempt, and its records with the states of the processes."""
    # Read the verdict before the records, so that the records of a finished job are complete.
    verdict, now = read_verdict(paths, problems), time.time()
    return verdict, [with_state(record, now, heartbeat_timeout) for record in read_records(paths, problems, budget)]


def read_export(paths: Paths, heartbeat_timeout: float) -> Export | None:
    """Return the state of a job's export, or None if it is missing or invalid.

    The state of an unfinished export is `lost` if the export has sent no heartbeat within the timeout.
    """
    try:
        export = cast(Export, schema.conform(schema.read_document(paths.export), EXPORT))
    except (OSError, ValueError):
        return None
    silent = not -CLOCK_LIMIT <= time.time() - export["heartbeat"] <= heartbeat_timeout
    return {**export, "state": LOST} if silent and export["state"] in (RUNNING, WAITING) else export


def queued_state(state: str, queued: Queued | None) -> str:
    """Return the state of a job, which may have an entry in a queue. `state` is the state according to the job's records.

    Only the queue knows whether a job without records still waits (see `_hosts/training_job/queue/submission.py`).
    """
    if queued and "failure" in queued:
        return FAILED
    return QUEUED if queued and state == PENDING else state


def process_state(record: ProcessRecord, now: float, heartbeat_timeout: float) -> str:
    """Return the recorded state of a process, or `lost` if a running process has sent no heartbeat for `heartbeat_timeout` seconds.

    A heartbeat that is more than CLOCK_LIMIT seconds in the future does not count.
    """
    state = record["state"]
    return LOST if state == RUNNING and not -CLOCK_LIMIT <= now - record["heartbeat"] <= heartbeat_timeout else state


def with_state(record: ProcessRecord, now: float, heartbeat_timeout: float) -> ProcessRecord:
    """Return a record with the current state of its process (see process_state())."""
    return {**record, "state": process_state(record, now, heartbeat_timeout)}


AnyRecord = TypeVar("AnyRecord", bound=ProcessRecord)


def participants(processes: Sequence[AnyRecord]) -> list[AnyRecord]:
    """Return the records of the processes that run the job's program, excluding standby processes."""
    return [process for process in processes if process["part"] != STANDBY]


def standby_hosts(processes: Sequence[ProcessRecord]) -> list[str]:
    used = {process["host"] for process in participants(processes)}
    return [host for host in dict.fromkeys(process["host"] for process in processes) if host not in used]


def job_state(processes: Sequence[ProcessRecord]) -> str:
    """Return the state of a job, derived from the records of the processes that have started. The records are results of with_state()."""
    states = {process["state"] for process in processes if process["state"] in DECIDING[process["part"]]}
    for state in DECIDING[WORKER]:
        if state in states:
            return state
    if not processes:
        return PENDING
    started = participants(processes)
    if not started:
        return RUNNING if any(process["state"] == RUNNING for process in processes) else LOST
    return SUCCEEDED if len(started) == started[0]["processes"] else RUNNING
