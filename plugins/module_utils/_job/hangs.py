# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decides whether a job hangs, and which of its ranks is the cause.

The functions are pure: they depend only on what supervisors have observed.
"""

from __future__ import annotations

import collections
import math
import statistics
from typing import Any, Hashable, Mapping, Sequence

from . import failure_causes
from .documents import CauseRecord, Hang, ProcessRecord, Stuck
from .naming import SERVICE
from .state_names import FAILED

# Seconds to wait in addition to a multiple of the median step before a hang is suspected, and before the job counts as hanging. While a
# hang is suspected, all supervisors poll at short intervals. They have 4 s to detect the suspicion, because they otherwise poll every 2 s.
# The lead sees steps at most 0.25 s late. The verdict, which needs the stacks of all processes, is therefore written at most 10 s after
# that multiple of the median has passed if the stacks of a host take less than 2 s.
SUSPICION, MARGIN = 2.0, 6.0

# The number of seconds since the last step after which signs of activity are read, even if long steps are usual. Otherwise, a job with long
# steps would count as hanging although it had written output shortly before.
LONG_STEP = 30.0

# The number of steps of an attempt after which steps are checked, and the number of last steps that count for the median. Earlier steps are
# not checked, because the first steps of a script often compile code or fill caches.
LEAST_STEPS, LAST_STEPS = 6, 101

# A process counts as the cause of a hang only if its output ended at least this number of seconds before the output of all other processes.
SILENT_BEFORE = 5.0

# The place of a rank that no supervisor has recorded.
UNKNOWN: Stuck = {"rank": 0, "where": "", "waits": False, "suspended": False}


class Activity:
    """Measures how long a job has shown no activity. All times are in seconds and come from the same clock.

    `timeout` is the number of seconds without any activity, and `steps` is the multiple of the median step time, after which the job counts
    as hanging. If one of these limits is 0, the corresponding condition is not checked. A job whose step is overdue counts as hanging only
    after `minimum` seconds without any activity, because scripts evaluate and save checkpoints between steps.
    """

    def __init__(self, now: float, timeout: float, steps: float, minimum: float = 0.0) -> None:
        self._timeout, self._steps, self._minimum = timeout, steps, minimum
        self._signs: Hashable = None
        self._active = self._stepped = now
        self._step: float | None = None
        self._count = 0
        self._durations: collections.deque[float] = collections.deque(maxlen=LAST_STEPS)
        self._suspended = True

    def see(self, signs: Hashable, now: float) -> None:
        """Record the current signs of activity, such as the times of the last outputs. Any change counts as activity."""
        if self._signs is not None and signs != self._signs:
            self._active = now
        self._signs = signs

    def add(self, entries: Sequence[Mapping[str, Any]], now: float) -> None:
        """Record new entries of the progress file.

        Another step is expected only after an entry whose `step` is less than its `steps`. Without the number of steps, the end of the
        training could not be distinguished from a hang.
        """
        new = 0
        for entry in entries:
            step = _number(entry.get("step"))
            if step is None:
                self._suspended = True
            elif step != self._step:
                steps = _number(entry.get("steps"))
                self._step, self._suspended = step, steps is None or step >= steps
                new += 1
        if entries:
            self._active = now
        if new:
            if self._count:  # the durations of the first steps include the start of the attempt
                self._durations.extend([(now - self._stepped) / new] * min(new, LAST_STEPS))
            self._count, self._stepped = self._count + new, now

    def hang(self, now: float) -> Hang | None:
        """Return how long the job has made no progress, or None if the job does not hang."""
        median = self._median()
        if median is not None and self._is_overdue(now, MARGIN) and now - self._active >= self._minimum:
            return {"seconds": now - self._stepped, "median": median}
        if self._timeout and now - self._active > self._timeout:
            return {"seconds": now - self._active}
        return None

    def needs_signs(self, now: float) -> bool:
        """Return whether signs of activity matter at this time: always if all activity is checked, otherwise if a step is late."""
        is_late = self._median() is not None and now - self._stepped > LONG_STEP
        return bool(self._timeout) or is_late or self._is_overdue(now, SUSPICION)

    def suspects_hang(self, now: float) -> bool:
        """Return whether the next step is overdue, so that the job may soon count as hanging."""
        return self._is_overdue(now, SUSPICION) and now - self._active >= self._minimum - (MARGIN - SUSPICION)

    def _is_overdue(self, now: float, margin: float) -> bool:
        """Return whether no step was reported for the multiple of the median step time plus a margin."""
        median = self._median()
        return median is not None and now - self._stepped > self._steps * median + margin

    def _median(self) -> float | None:
        """Return the median step time, or None if steps are not checked, no step is expected, or there are too few steps."""
        if not self._steps or self._suspended or self._count < LEAST_STEPS or not self._durations:
            return None
        return statistics.median(self._durations)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def find_odd(ranks: Sequence[Stuck], active: Sequence[float]) -> int | None:
    """Return the index of the rank for which the others wait, or None if no rank differs from the others.

    `active` contains the times at which the ranks' processes last wrote output. A suspended rank is the cause. If no rank is suspended, the
    cause is the rank that cannot reach more of its peers than any other rank. If this is unknown, the cause is a rank whose log ends with
    an exception. If there is none, the cause is a rank that does not wait while others do. Otherwise, the cause is a rank at a place where
    fewer than half of the ranks are. If all ranks are at the same place, the cause is a rank whose output ended before the output of the
    other ranks.
    """
    everyone = range(len(ranks))
    by_place = collections.Counter(rank["where"] for rank in ranks)
    rare = [index for index in everyone if 2 * by_place[ranks[index]["where"]] < len(ranks)]
    for few in (*_conspicuous(ranks), rare):
        if few and len(few) < len(ranks):
            return min(few, key=lambda index: (by_place[ranks[index]["where"]], active[index], ranks[index]["rank"]))
    by_time = sorted(everyone, key=lambda index: active[index])
    if len(by_place) == 1 and len(ranks) > 1 and active[by_time[1]] - active[by_time[0]] > SILENT_BEFORE:
        return by_time[0]
    return None


def _conspicuous(ranks: Sequence[Stuck]) -> tuple[list[int], ...]:
    """Return the indices of the ranks that are suspended, unreachable, have failed, or do not wait for others."""
    numbered = list(enumerate(ranks))
    suspended = [index for index, rank in numbered if rank["suspended"]]
    failed = [index for index, rank in numbered if rank.get("error")]
    return suspended, _unreachable(ranks), failed, [index for index, rank in numbered if not rank["waits"]]


def _unreachable(ranks: Sequence[Stuck]) -> list[int]:
    """Return the index of the rank that cannot reach more of its peers than any other rank, if there is exactly one.

    If two ranks cannot reach each other, either of them may be the cause.
    """
    shares = [rank.get("silent_peers", 0) for rank in ranks]
    most = max(shares, default=0)
    return [shares.index(most)] if most and shares.count(most) == 1 else []


def hung_process(processes: Sequence[ProcessRecord], hang: Hang, now: float) -> ProcessRecord:
    """Return the record of the process that makes a job hang, changed to the record of a failed process.

    `hang` is the result of Activity.hang(). If no rank differs from the others, the result is the record of the first
    process, and the cause has no name.
    """
    found = [(process, rank) for process in processes for rank in process.get("stuck", []) if _counts(process, rank)]
    index = find_odd([rank for _process, rank in found], [process.get("active", process["started"]) for process, _rank in found])
    process, rank = found[index or 0] if found else (processes[0], UNKNOWN)
    cause = _cause(hang, rank, [other["where"] for _process, other in found if other is not rank])
    if index is not None:
        cause["name"] = f"rank {rank['rank']}"
    return {**process, "state": FAILED, "finished": now, "cause": cause}


def _cause(hang: Hang, rank: Stuck, others: Sequence[str]) -> CauseRecord:
    """Return the cause that names a rank. `others` are the places of the other ranks."""
    most, there = collections.Counter(others).most_common(1)[0] if others else ("", 0)
    seen: Hang = {**hang, "stuck": rank, "others": len(others), "there": there, "most": most}
    return {"kind": failure_causes.HANG, "what": f"a hang at {rank['where']}" if rank["where"] else "a hang", "hang": seen}


def _counts(process: ProcessRecord, rank: Stuck) -> bool:
    """Return whether a rank can be the cause. Parameter servers always wait, so they can be the cause only if they are suspended.

    The daemons of MPI are services too, but the ranks that they start can be the cause. The records of daemons contain no ranks.
    """
    return process["part"] != SERVICE or not process["ranks"] or rank["suspended"]
