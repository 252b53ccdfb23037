# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Determines what the hosts of a job spent their time on, based on the records of the job's attempts and on the job's progress file."""

from __future__ import annotations

import math
import time
from typing import Iterator, NamedTuple, Sequence

from ...._job import directories, failed_process, failure_causes, job_states, records, recovery, state_names
from ...._job.documents import Following, ProcessRecord
from ...._job.goodput import HOSTS_LIMIT, Attempt, Meter
from ...._job.job_status import Goodput, StepTime
from ...._job.schema import Document
from ...._job.step_times import StepTimes, hosts_of_ranks
from . import progress_times

# Maximum total size of the records of all attempts before the newest one, in bytes. For attempts beyond this limit, only the decisions
# count.
OLDER_RECORDS_LIMIT = 1 << 21


class Measured(NamedTuple):
    """What the hosts of a job spent their time on, and how long they need for a step in the newest attempt.

    `instances` contains the IDs of the hosts' EC2 instances in all attempts, at most `HOSTS_LIMIT`.
    """

    goodput: Goodput
    step_times: list[StepTime]
    instances: list[str]
    runs: list[Run]


class Run(NamedTuple):
    """When the processes of a job ran, without a person who continued it, and on how many hosts."""

    start: float
    end: float
    hosts: int


class AttemptRecords(NamedTuple):
    """The recorded data about one attempt: its records, the process that ended it, and what follows it."""

    processes: Sequence[ProcessRecord]
    failure: ProcessRecord | None
    following: Following | None


def measure(paths: directories.Paths, heartbeat_timeout: float) -> Measured:
    """Return what the hosts of a job spent their time on. Raises OSError or ValueError if the directory is not a job directory."""
    created, now = records.read_description(paths)["created"], time.time()
    newest = records.newest_attempt(paths)
    verdict, processes = job_states.read_attempt(newest, heartbeat_timeout)
    state = job_states.attempt_state(newest, processes, heartbeat_timeout, verdict)
    following = records.read_following(newest)
    failure = failed_process.last_failure(processes, verdict, following) if state != state_names.SUCCEEDED else None
    last = AttemptRecords(processes, failure, following)
    known = [*older_attempts(newest), *([last] if processes or newest.attempt > 1 else [])]
    end = job_end(created, last) if state_names.is_over(state) else now
    found = attempts(known)
    meter = Meter(created, end, found, other_hosts(known), state == state_names.SUCCEEDED, is_running=not state_names.is_over(state))
    times = StepTimes()
    began = min((process["started"] for process in processes), default=end)
    for moment, entry in read_entries(paths, min(found[0].began, end) if found else created, end):
        meter.add(moment, entry)
        if moment >= began:
            times.add(entry)
    return Measured(meter.result(), times.result(hosts_of_ranks(processes)), instances(known), runs(known))


def instances(known: Sequence[AttemptRecords]) -> list[str]:
    found = {process.get("instance", "") for one in known for process in one.processes}
    return sorted(found - {""})[:HOSTS_LIMIT]


def node_seconds(paths: directories.Paths, heartbeat_timeout: float) -> float:
    """Return for how many seconds the hosts of a job that has ended have run it, added up over its hosts."""
    newest = records.newest_attempt(paths)
    last = AttemptRecords(job_states.read_attempt(newest, heartbeat_timeout)[1], None, None)
    return sum(max(run.end - run.start, 0.0) * run.hosts for run in runs([*older_attempts(newest), last]))


def runs(known: Sequence[AttemptRecords]) -> list[Run]:
    """Return the runs of a job. A run contains all attempts until somebody had to continue the job, and the time between them."""
    found, processes = [], list[ProcessRecord]()
    for one in known:
        processes += one.processes
        if processes and (one is known[-1] or (one.following and one.following["rule"] == recovery.CONTINUED)):
            start, end = min(each["started"] for each in processes), max(map(last_moment, processes))
            found.append(Run(start, end, len({each["host"] for each in processes})))
            processes = []
    return found


def older_attempts(newest: directories.Paths) -> list[AttemptRecords]:
    """Return the recorded data about the attempts before the newest one, oldest first. Attempts without a valid decision are left out.

    If the records exceed the size limit, the records of the oldest attempts are left out.
    """
    decisions, budget, found = records.Budget(), records.Budget(OLDER_RECORDS_LIMIT), []
    for number in range(newest.attempt - 1, 0, -1):
        paths = newest.of_attempt(number)
        following = records.read_following(paths, decisions)
        if following is None:
            continue
        processes = records.read_records(paths, budget=budget) if budget.left > 0 else []
        # These attempts are over, so a process that is running according to its record was lost.
        ended = [job_states.with_state(record, math.inf, 0) for record in processes if budget.left >= 0]
        found.append(AttemptRecords(ended, following.get("failure"), following))
    return found[::-1]


def job_end(created: float, last: AttemptRecords) -> float:
    decided = last.following["decided"] if last.following else created
    return max([created, decided, *map(last_moment, last.processes)])


def last_moment(process: ProcessRecord) -> float:
    """Return the time at which a process ended or sent its last heartbeat."""
    return process["heartbeat"] if process["state"] in (state_names.LOST, state_names.RUNNING) else process["finished"]


def attempts(known: Sequence[AttemptRecords]) -> list[Attempt]:
    """Return the attempts of a job.

    If the hosts have decided to start another attempt but that attempt has not begun, the attempt counts as begun at the end of the job.
    """
    hosts = set(other_hosts(known))
    found, planned = [], set(hosts) if known and not known[0].processes else set()
    for one in known:
        found.append(attempt(one, planned))
        following: Following | dict[str, list[str]] = one.following or {}
        planned = hosts.intersection(following.get("hosts", [])).difference(following.get("standby", []))
    if known and known[-1].following and known[-1].following["action"] == recovery.RESTART:
        found.append(Attempt(math.inf, dict.fromkeys(sorted(planned))))
    return found


def other_hosts(known: Sequence[AttemptRecords]) -> list[str]:
    """Return the hosts that may be missing from the attempts: hosts on standby, and hosts that a decision names.

    A decision names a host because it has processes that cannot be restarted, or because a process failed there.
    """
    found = [process["host"] for one in known for process in one.processes]
    found += [host for one in known if one.following for host in one.following.get("missing", [])]
    return found + [one.failure["host"] for one in known if one.failure]


def attempt(one: AttemptRecords, planned: set[str]) -> Attempt:
    """Return an attempt, derived from its records and from the hosts on which it was to run.

    Hosts on standby do not belong to the attempt.
    """
    moments: dict[str, list[float]] = {}
    processes = job_states.participants(one.processes)
    # The lost process that ended the attempt was still running when it sent its last heartbeat.
    lost = one.failure["name"] if one.failure and one.failure["state"] == state_names.LOST else None
    for process in processes:
        has_end = process["state"] != state_names.RUNNING and process["name"] != lost
        moments.setdefault(process["host"], []).append(last_moment(process) if has_end else math.inf)
    ends: dict[str, float | None] = {host: max(ended) for host, ended in moments.items()}
    starts = [process["started"] for process in processes]
    decided = one.following["decided"] if one.following else None
    began = min(starts, default=math.inf if decided is None else decided)
    if one.following:
        began = one.following.get("started", began)
    return Attempt(
        began,
        {**ends, **dict.fromkeys(sorted(planned - set(ends)))},
        max(starts, default=began),
        failed_at(one),
        decided,
        lost is not None or is_hang(one.failure),
    )


def failed_at(one: AttemptRecords) -> float | None:
    """Return the time at which the first process of an attempt failed, or None.

    An attempt that hung counts as failed from the time of its last activity.
    """
    if one.failure is None:
        return None
    if not is_hang(one.failure):
        return last_moment(one.failure)
    if "median" in one.failure["cause"].get("hang", {}):
        return 0.0  # output is not a sign of progress, so the time of the last step counts
    return max(process.get("active", 0.0) for process in (one.failure, *one.processes))


def is_hang(failure: ProcessRecord | None) -> bool:
    """Return whether an attempt ended because it hung."""
    return failure is not None and failure.get("cause", {}).get("kind") == failure_causes.HANG


def read_entries(paths: directories.Paths, start: float, end: float) -> Iterator[tuple[float, Document]]:
    """Yield the entries of the progress file with their times.

    If an entry contains no time, its time is estimated from the recorded growth of the file.
    """
    clock: progress_times.Clock | None = None
    for offset, entry in progress_times.sample(paths.progress):
        told = progress_times.told_time(entry)
        if told is None:
            clock = clock or progress_times.Clock(start, end, progress_times.read_notes(paths.progress_times))
            told = clock.time(offset)
        yield told, entry
