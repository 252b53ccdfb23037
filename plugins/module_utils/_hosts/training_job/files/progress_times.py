# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the whole progress file of a job, and estimates when its entries were written."""

from __future__ import annotations

import itertools
import math
import os
from bisect import bisect_left
from typing import Any, BinaryIO, Dict, Iterator, Sequence, Tuple

from ...._job.schema import DIGITS, TIME_LIMIT, open_regular
from .progress import progress_entry

ProgressEntry = Dict[str, Any]

# Maximum number of bytes to read from the end of the progress file, of bytes in one line, and of characters in a curve's name.
FILE_LIMIT, LINE_LIMIT, NAME_LIMIT = 1 << 28, 1 << 16, 100

# A sample contains this number of consecutive entries, then the same number of entries from every second line, then from every fourth line,
# and so on. The second value is the maximum number of lines that are read for a sample, or for the recorded sizes of the progress file.
SAMPLED, LINES_LIMIT = 1 << 15, 1 << 22

# Up to a limit, lines with this key are always part of a sample.
ALWAYS, ALWAYS_LIMIT = b'"checkpoint_seconds"', 1 << 18

# The key under which an entry may contain its own time.
TIME = "time"

# Times from this value onwards are seconds since 1970. Smaller times are ignored, because they may be seconds since the job
# began.
SINCE_1970 = 1e9

# The sizes of a growing file at different times: pairs (seconds since 1970, bytes) in increasing order.
Notes = Sequence[Tuple[float, int]]


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


def number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def told_time(entry: ProgressEntry) -> float | None:
    """Return the time in an entry, in seconds since 1970, or None."""
    told = number(entry.get(TIME))
    return told if told is not None and SINCE_1970 <= told < math.inf else None


def entries(path: str) -> Iterator[tuple[int, ProgressEntry]]:
    """Yield each complete line that is a JSON object, with the offset of its end. Other lines are skipped."""
    for offset, line in _lines(path):
        entry = progress_entry(line)
        if entry is not None:
            yield offset, {name[:NAME_LIMIT]: value for name, value in entry.items()}


def sample(path: str) -> Iterator[tuple[int, ProgressEntry]]:
    """Yield the same values as entries(), but from a long file only as many entries as can be read in a few seconds.

    Toward the end of the file, more entries are left out. Entries about checkpoints are not left out.
    """
    width, count = 1, 0
    for index, (offset, line) in enumerate(itertools.islice(_lines(path), LINES_LIMIT)):
        if index % width and not (ALWAYS in line and count < ALWAYS_LIMIT):
            continue
        count += 1
        if count % SAMPLED == 0:
            width *= 2
        entry = progress_entry(line)
        if entry is not None:
            yield offset, entry


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
    """Return the sizes that the supervisor recorded for the progress file. Lines that are incomplete or out of order are skipped."""
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
