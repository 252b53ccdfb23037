# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Turns the progress that a job's script has reported into curves. The size of a curve is limited, regardless of the job's duration."""

from __future__ import annotations

import itertools
import math
import os
from bisect import bisect_left
from typing import Any, BinaryIO, Dict, Iterator, NamedTuple, Sequence, Tuple

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.progress import progress_entry
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.schema import DIGITS, TIME_LIMIT, open_regular

Entry = Dict[str, Any]

# A curve has at most twice this number of points, which is more than the width of a chart in pixels.
POINTS = 500

# Limits of a report. Without them, a script that reports the norm of each layer would create hundreds of charts.
CURVES = 24
RESTARTS = 20
RATES = 60
LEFT_OUT = 100

# Maximum bytes to read from the end of the progress file, maximum bytes of one line, and maximum characters of a curve's name.
FILE_LIMIT, LINE_LIMIT, NAME_LIMIT = 1 << 28, 1 << 16, 100

# A sample contains this number of entries, as many of every second entry after them, and so on. Maximum numbers of its entries and of the
# lines that are read for it, or for the recorded sizes of the progress file.
SAMPLED, SAMPLE_LIMIT, LINES_LIMIT = 1 << 15, 1 << 18, 1 << 22

# Lines with this key are always part of a sample, because they say how the time after them is spent.
PHASE = b'"phase"'

# Keys that describe the position of an entry's other values. They have no curves.
STEP, STEPS, TIME = "step", "steps", "time"

# Times of at least this value are seconds since 1970. Smaller times are ignored, because they may be seconds since the job began.
SINCE_1970 = 1e9

Notes = Sequence[Tuple[float, int]]
"""The sizes of a growing file at different times: pairs (seconds since 1970, bytes) in increasing order."""


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
        """Return the curve as a dictionary that can be written as JSON."""
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


class Clock:
    """Estimates when the progress file reached a given size, based on the sizes that the job's supervisor has recorded."""

    def __init__(self, start: float, end: float, notes: Notes) -> None:
        self._times = [start, *(time for time, _size in notes)]
        self._sizes = [0, *(size for _time, size in notes)]
        self._end = max(end, self._times[-1])

    def time(self, size: int) -> float:
        """Return the time (seconds since 1970) at which the file had the given size.

        The time is interpolated between two recorded sizes. After the last recorded size, the result is the end of the job.
        """
        index = bisect_left(self._sizes, size)
        if index == len(self._sizes):
            return self._end
        after, longer = self._times[index], self._sizes[index]
        before, shorter = self._times[max(index - 1, 0)], self._sizes[max(index - 1, 0)]
        return before + (after - before) * (size - shorter) / max(longer - shorter, 1)


class Progress:
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

    def add(self, time: float, entry: Entry) -> None:
        """Add an entry. `time` (seconds since 1970) applies unless the entry contains its own time."""
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


def number(value: Any) -> float | None:
    """Return a JSON value as a float, or None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def told_time(entry: Entry) -> float | None:
    """Return the time in an entry, in seconds since 1970, or None."""
    told = number(entry.get(TIME))
    return told if told is not None and SINCE_1970 <= told < math.inf else None


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
    progress, clock = Progress(start), Clock(start, end, notes)
    for offset, entry in entries(path):
        progress.add(clock.time(offset), entry)
    return progress.result()


def entries(path: str) -> Iterator[tuple[int, Entry]]:
    """Yield each complete line that is a JSON object, with the offset of its end. Skips invalid lines, which only faulty scripts write."""
    for offset, line in _lines(path):
        entry = progress_entry(line)
        if entry is not None:
            yield offset, {name[:NAME_LIMIT]: value for name, value in entry.items()}


def sample(path: str) -> Iterator[tuple[int, Entry]]:
    """Yield entries like entries(), but of a long file only as many as can be read in a few seconds. More are left out towards the end.

    Entries with a phase and those after them are part of the sample.
    """
    width, count, follows = 1, 0, False
    for index, (offset, line) in enumerate(itertools.islice(_lines(path), LINES_LIMIT)):
        has_phase = PHASE in line
        if index % width and not (has_phase or follows):
            continue
        follows = has_phase
        entry = progress_entry(line)
        if entry is not None:
            yield offset, entry
        count += 1
        if count % SAMPLED == 0:
            width *= 2
        if count == SAMPLE_LIMIT:
            return


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the complete lines of a file with the offsets of their ends. Lines that are too long are skipped."""
    try:
        with open_regular(path) as file:
            offset = max(0, file.seek(0, os.SEEK_END) - FILE_LIMIT)
            file.seek(offset)
            yield from _lines_from(file, offset)
    except OSError:
        return


def _lines_from(file: BinaryIO, offset: int) -> Iterator[tuple[int, bytes]]:
    begins = not offset
    while True:
        part = file.readline(LINE_LIMIT)
        if not part:
            return
        offset += len(part)
        ends = part.endswith(b"\n")
        if begins and ends:
            yield offset, part
        begins = ends


def read_notes(path: str) -> list[tuple[float, int]]:
    """Return the sizes of the progress file that the supervisor recorded. Lines that are incomplete or out of order are skipped."""
    notes = [(0.0, 0)]
    for _offset, line in itertools.islice(_lines(path), LINES_LIMIT):
        words = line.split()
        try:
            time, size = float(words[0]), int(words[1][:DIGITS])
        except (IndexError, ValueError):
            continue
        if notes[-1][0] <= time < TIME_LIMIT and notes[-1][1] <= size:
            notes.append((time, size))
    return notes[1:]
