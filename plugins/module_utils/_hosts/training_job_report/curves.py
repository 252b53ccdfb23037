# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converts the entries of a job's progress file to curves. The size of a curve is limited, regardless of the job's duration."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

from ..._job.report_limits import CURVES, LEFT_OUT, POINTS, RATES, RESTARTS
from ..training_job.files.progress_times import TIME, Clock, Notes, ProgressEntry, entries, number, told_time

# Keys that, like the time, describe the position of an entry's other values. No curves are drawn for these keys.
STEP, STEPS = "step", "steps"


class Point(NamedTuple):
    """Combines adjacent values of a curve: the step and time of the last value, and the range, sum and number of all values."""

    step: float
    time: float
    low: float
    high: float
    total: float
    number: int

    def joined(self, later: Point) -> Point:
        return Point(
            later.step,
            later.time,
            min(self.low, later.low),
            max(self.high, later.high),
            self.total + later.total,
            self.number + later.number,
        )


class Curve:
    """The values of a curve, in the order in which they are added.

    As the number of values grows, each point combines more values. The range of a point covers all of its values.
    """

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.notable: dict[str, dict[str, float]] = {}
        self.missing = 0
        self._width = 1

    def add(self, step: float, time: float, value: float) -> None:
        """Add the next value. Values that are not finite are counted but not stored."""
        if math.isfinite(value):
            self._note({"value": value, STEP: step, TIME: time})
            self._append(Point(step, time, value, value, value, 1))
        else:
            self.missing += 1
            self.notable.setdefault("first_missing", {STEP: step, TIME: time})

    def _note(self, here: dict[str, float]) -> None:
        self.notable.setdefault("first", here)
        self.notable["last"] = here
        if here["value"] <= self.notable.setdefault("lowest", here)["value"]:
            self.notable["lowest"] = here
        if here["value"] >= self.notable.setdefault("highest", here)["value"]:
            self.notable["highest"] = here

    def _append(self, point: Point) -> None:
        if self.points and self.points[-1].number < self._width:
            self.points[-1] = self.points[-1].joined(point)
            return
        self.points.append(point)
        if len(self.points) == 2 * POINTS:
            self.points = [self.points[index].joined(self.points[index + 1]) for index in range(0, 2 * POINTS, 2)]
            self._width *= 2

    def result(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "steps": [point.step for point in self.points],
            "times": [point.time for point in self.points],
            "lows": [point.low for point in self.points],
            "means": [point.total / point.number for point in self.points],
            "highs": [point.high for point in self.points],
            "missing": self.missing,
            **self.notable,
        }


class JobProgress:
    """The progress of a job for its report. Entries must be added in order."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._curves: dict[str, Curve] = {}
        self._left_out: dict[str, None] = {}
        self._done = Curve()
        self._step: float | None = None
        self._steps: float | None = None
        self._stepped = 0.0
        self._count = 0
        self._restarts: list[dict[str, float]] = []

    def add(self, time: float, entry: ProgressEntry) -> None:
        """Add an entry. `time` (seconds since 1970) is the time of the entry unless the entry contains its own time."""
        told = told_time(entry)
        time = (time if told is None else told) - self._start
        self._count += 1
        step = self._advance(number(entry.get(STEP)), time)
        total = number(entry.get(STEPS))
        self._steps = total if total is not None and math.isfinite(total) else self._steps
        for name, found in entry.items():
            value = number(found)
            if value is None or name in (STEP, STEPS, TIME):
                continue
            if name in self._curves or len(self._curves) < CURVES:
                self._curves.setdefault(name, Curve()).add(step, time, value)
            elif len(self._left_out) < LEFT_OUT:
                self._left_out[name] = None

    def _advance(self, step: float | None, time: float) -> float:
        """Return the step of an entry. If the entry has no step, return the last step or, without any step, the number of entries."""
        if step is None or not math.isfinite(step):
            return float(self._count) if self._step is None else self._step
        if self._step is not None and step < self._step and len(self._restarts) < RESTARTS:
            self._restarts.append({TIME: time, "from": self._step, "to": step})
        if self._step is not None:
            self._stepped += max(0.0, step - self._step)
        self._step = step
        self._done.add(step, time, self._stepped)
        return step

    def result(self) -> dict[str, Any]:
        """Return the progress as a dictionary that can be written as JSON, with times in seconds since the job began."""
        return {
            "entries": self._count,
            STEP: self._step,
            STEPS: self._steps,
            "curves": [curve.result(name) for name, curve in self._curves.items()],
            "left_out": list(self._left_out),
            "restarts": self._restarts,
            "throughput": throughput([(point.time, point.high) for point in self._done.points]),
        }


def throughput(done: Sequence[tuple[float, float]]) -> dict[str, Any] | None:
    """Return the average rate in steps per second, and the rates in at most RATES intervals of the job.

    `done` contains pairs (seconds, number of completed steps). Returns None if there is not enough data.
    """
    if len(done) < 2 or done[-1][0] <= done[0][0] or done[-1][1] <= done[0][1]:
        return None
    (began, zero), (ended, last) = done[0], done[-1]
    times, rates = [], []
    time, steps = began, zero
    for then, so_far in done[1:]:
        if then - time >= (ended - began) / RATES:
            times.append(then)
            rates.append((so_far - steps) / (then - time))
            time, steps = then, so_far
    return {"mean": (last - zero) / (ended - began), "times": times, "rates": rates}


def read(path: str, notes: Notes, start: float, end: float) -> dict[str, Any]:
    """Return the progress of a job that started at `start` and ended, or sent its last heartbeat, at `end`."""
    progress, clock = JobProgress(start), Clock(start, end, notes)
    for offset, entry in entries(path):
        progress.add(clock.time(offset), entry)
    return progress.result()
