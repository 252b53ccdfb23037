# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Measures what the hosts of a job spent their time on. docs/watching.md defines the buckets.

Each moment of each host's time, from the creation of the job to its end, belongs to exactly one bucket. The functions are pure: they depend
only on the contents of the job's files. Files may be forged, so times in the wrong order are adjusted. The buckets therefore always add up
to the total time.
"""

from __future__ import annotations

import bisect
import itertools
import math
from typing import Any, Iterator, Mapping, NamedTuple, Sequence, Tuple

from .job_status import Goodput, HostGoodput

TRAINING = "training"
RECOMPUTED = "recomputed"
CHECKPOINT = "checkpoint"
END = "end"
START = "start"
WAITING = "waiting"
DETECTION = "detection"
RESTART = "restart"
IDLE = "idle"

# The goodput buckets in the order in which they are shown.
BUCKETS = (TRAINING, RECOMPUTED, CHECKPOINT, START, END, WAITING, DETECTION, RESTART, IDLE)

# The cases in which the goodput is returned. Not every poll needs the goodput, and computing it takes seconds if the progress file is long.
NEVER, ENDED, ALWAYS = "never", "ended", "always"

# The key in a progress entry whose value is the number of seconds, before the entry, that were spent on writing a checkpoint.
CHECKPOINT_SECONDS = "checkpoint_seconds"

# Maximum number of hosts. Additional hosts are left out, because forged decisions can name millions of hosts.
HOSTS_LIMIT = 1 << 14

# A time, and the bucket that begins at this time.
PhaseChange = Tuple[float, str]


class Attempt(NamedTuple):
    """An attempt of a job. All times are in seconds since 1970.

    `began` is the time at which the attempt's first process started, and `complete` is the time at which its last process started. `hosts`
    maps the hosts of the attempt to the time at which all processes of the host had ended, or to None. `failed` is the time at which the
    first process failed, or None. A hang and the loss of a host begin `unnoticed`: the attempt failed at the time of its last progress
    entry or at `failed`, whichever is later. `decided` is the time of the hosts' decision about the next attempt, or None if there is no
    decision yet.
    """

    began: float
    hosts: Mapping[str, float | None]
    complete: float = 0.0
    failed: float | None = None
    decided: float | None = None
    unnoticed: bool = False


class _Span(NamedTuple):
    """An attempt whose times are complete, in order, and within the duration of the job.

    `decided` is the time at which the attempt is over.
    """

    began: float
    complete: float
    failed: float
    decided: float
    unnoticed: bool
    hosts: Mapping[str, float | None]


class Meter:
    """Measures the goodput of one job from its attempts, oldest first, and from the entries of its progress file.

    The entries must be added in order. `hosts` contains additional hosts of the job that took part in none of the attempts. If the job has
    succeeded, the last entry is the end of its training. If it is still running, its first entry may come later.
    """

    def __init__(
        self,
        created: float,
        end: float,
        attempts: Sequence[Attempt],
        hosts: Sequence[str] = (),
        has_succeeded: bool = False,
        is_running: bool = False,
    ) -> None:
        self._has_succeeded, self._is_running = has_succeeded, is_running
        self._created, self._end = created, max(created, end)
        self._spans = list(_in_order(attempts, self._created, self._end))
        names = dict.fromkeys([*(host for one in attempts for host in one.hosts), *hosts])
        self._hosts = list(itertools.islice(names, HOSTS_LIMIT))
        self._begins = [span.began for span in self._spans]
        self._changes: list[list[PhaseChange]] = [[(span.began, START)] for span in self._spans]
        # The state after the last entry: its time, the index of its attempt, the last step of this attempt, whether no further step
        # follows, the highest step of earlier attempts, and the highest step of all attempts.
        self._time = self._created
        self._index = -1
        self._step: float | None = None
        self._is_last_step = False
        self._highest = self._reached = -math.inf

    def add(self, time: float, entry: Mapping[str, Any]) -> None:
        """Add an entry of the progress file.

        The time since the previous entry counts as time for the step of this entry and, if the entry says so, for a checkpoint.
        """
        time = _within(time, self._time, self._end)
        index = bisect.bisect_right(self._begins, time) - 1
        if index < 0:
            return
        step, saved = _number(entry.get("step")), _number(entry.get(CHECKPOINT_SECONDS)) or 0.0
        if index == self._index:
            if saved > 0:
                self._change(self._time, CHECKPOINT)
            self._change(min(self._time + max(saved, 0.0), time), self._bucket(step))
        else:
            self._leave()
            self._index, self._step, self._is_last_step, self._highest = index, None, False, self._reached
        self._time = time
        if step is not None:
            self._is_last_step = step >= (_number(entry.get("steps")) or math.inf)
            self._step, self._reached = step, max(step, self._reached)

    def _leave(self) -> None:
        """End the current attempt: record the bucket after its last entry, and the time of the failure if it began unnoticed."""
        if self._index >= 0:
            self._change(self._time, self._bucket(None))
            span = self._spans[self._index]
            if span.unnoticed:
                self._spans[self._index] = span._replace(failed=min(max(span.failed, self._time), span.decided))

    def _bucket(self, step: float | None) -> str:
        """Return the bucket of the time between the last entry and an entry with this step. If `step` is None, the next step is assumed."""
        if step is None:
            if self._is_last_step:
                return END
            return RECOMPUTED if self._step is not None and self._step < self._highest else TRAINING
        return RECOMPUTED if step <= self._highest else TRAINING

    def _change(self, time: float, bucket: str) -> None:
        changes = self._changes[self._index]
        if changes[-1][1] != bucket:
            changes.append((time, bucket))

    def result(self) -> Goodput:
        """Return the seconds in each bucket, for each host and for all hosts together. Do not add entries afterwards."""
        self._is_last_step |= self._has_succeeded
        self._leave()
        before = self._begins[0] if self._begins else self._end
        spent = {host: {**dict.fromkeys(BUCKETS, 0.0), WAITING: before - self._created} for host in self._hosts}
        for span, changes in zip(self._spans, self._changes):
            if self._index < 0:  # the job has reported no progress
                changes = [(span.began, START), (span.complete, START if self._is_running and len(self._spans) == 1 else TRAINING)]
            _spend(spent, span, changes, before)
            before = span.decided
        return _goodput(spent, self._end - self._created)


def _in_order(attempts: Sequence[Attempt], start: float, end: float) -> Iterator[_Span]:
    """Yield the attempts of a job that lasts from `start` to `end`.

    An attempt without a decision lasts until the next one begins, and the last attempt until the end of the job.
    """
    for one, later in zip(attempts, [*attempts[1:], None]):
        began = _within(one.began, start, end)
        decided = end if later is None else _within(later.began if one.decided is None else one.decided, began, end)
        failed = decided if one.failed is None else _within(one.failed, began, decided)
        yield _Span(began, _within(one.complete, began, end), failed, decided, one.unnoticed, one.hosts)
        start = decided


def _within(time: float, start: float, end: float) -> float:
    return min(max(time, start), end)


def _spend(spent: Mapping[str, dict[str, float]], span: _Span, changes: Sequence[PhaseChange], before: float) -> None:
    """Add the time of this attempt to the buckets of all hosts. The time begins at `before`, when the previous attempt ended."""
    ends = {host: span.failed if ended is None else _within(ended, span.began, span.failed) for host, ended in span.hosts.items()}
    until = _until([(before, RESTART), *changes], {*ends.values()})
    for host, buckets in spent.items():
        if host in ends:
            for bucket, seconds in until[ends[host]].items():
                buckets[bucket] += seconds
            buckets[IDLE] += span.failed - ends[host]
            buckets[DETECTION] += span.decided - span.failed
        else:
            buckets[IDLE] += span.decided - before


def _until(changes: Sequence[PhaseChange], ends: set[float]) -> dict[float, dict[str, float]]:
    """For each end time, return the seconds in each bucket between the first change and this end time.

    The first change precedes all end times.
    """
    found: dict[float, dict[str, float]] = {}
    sums: dict[str, float] = {}
    left = sorted(ends, reverse=True)
    for (begin, bucket), (end, _next) in zip(changes, [*changes[1:], (math.inf, "")]):
        while left and left[-1] <= end:
            last = left.pop()
            found[last] = {**sums, bucket: sums.get(bucket, 0.0) + last - begin}
        sums[bucket] = sums.get(bucket, 0.0) + end - begin
    return found


def _goodput(spent: Mapping[str, dict[str, float]], seconds: float) -> Goodput:
    """Return the goodput, with all times rounded to milliseconds."""
    total = {bucket: sum(buckets[bucket] for buckets in spent.values()) for bucket in BUCKETS}
    paid = sum(total.values())
    return {
        "nodes": len(spent),
        "seconds": round(seconds, 3),
        "ratio": round(total[TRAINING] / paid, 6) if paid else 0.0,
        "buckets": _rounded(total),
        "hosts": [HostGoodput(host=host, buckets=_rounded(buckets)) for host, buckets in spent.items()],
    }


def _rounded(buckets: Mapping[str, float]) -> dict[str, float]:
    return {bucket: round(seconds, 3) for bucket, seconds in buckets.items()}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)
