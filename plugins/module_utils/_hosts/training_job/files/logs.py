# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the logs of a job's processes, and formats their lines with the names of the processes."""

from __future__ import annotations

import os
import re
from typing import Iterable, NamedTuple

from ...._job.schema import open_regular
from ...._text import clean, log_line

# A line in which a program says that it waits, for example for a lock or for other ranks. Programs repeat such lines while they hang.
WAITING = re.compile(r"\bwaiting\b", re.IGNORECASE)
# Maximum number of bytes of new lines that can all be such lines.
WAITING_LIMIT = 1 << 12


class LogPart(NamedTuple):
    """Lines of a log. The next lines begin at byte `offset`. `left_out` is the number of bytes that were skipped before these lines."""

    lines: list[str]
    offset: int
    left_out: int


def read_log(path: str, offset: int, limit: int, over: bool) -> LogPart:
    """Return the complete lines of a log from byte `offset` onwards, but only those in its last `limit` bytes.

    If the process has ended (`over`), the last line counts as complete. A line that a program has overwritten with carriage returns, such
    as a progress bar, is returned as a terminal would show it.
    """
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            start = max(offset, size - limit)
            file.seek(start)
            data = file.read(limit)
    except OSError:
        return LogPart([], offset, 0)
    begin = data.find(b"\n") + 1 if start > offset else 0
    end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    if over or (end <= begin and len(data) >= limit):
        end = len(data)
    text = data[begin:end].decode("utf-8", "replace")
    lines = [log_line(line.rstrip("\r").rsplit("\r", 1)[-1]) for line in text.split("\n")]
    if not lines[-1]:  # if the last line is complete, the text after the last newline is empty
        lines.pop()
    return LogPart(lines, start + end, start + begin - offset)


def lines_of(rank: str, tag: str, lines: Iterable[str]) -> list[str]:
    """Return the lines of one rank in a log that several ranks share, where each line begins with a tag.

    mpirun may write the next rank's tag and line before the current line has ended, so one line may contain several tags.
    """
    before_tag = re.compile("(?={})".format(r"\d+".join(map(re.escape, tag.split("{}")))))
    parts = [part for line in lines for part in before_tag.split(line)]
    return [part for part in parts if part.startswith(tag.format(rank))]


def only_waits(path: str, offset: int, size: int) -> bool:
    """Return whether the program only says that it waits in the lines of a log from byte `offset` to byte `size`."""
    if not offset < size <= offset + WAITING_LIMIT:
        return False
    try:
        with open_regular(path) as file:
            file.seek(offset)
            lines = [line for line in clean(file.read(size - offset).decode("utf-8", "replace")).splitlines() if line.strip()]
    except OSError:
        return False
    return bool(lines) and all(map(WAITING.search, lines))


def tail(path: str, limit: int) -> list[str]:
    """Return the lines in the last `limit` bytes of a text file, without control characters other than tabs."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
            return clean(file.read(limit).decode("utf-8", "replace")).splitlines()
    except OSError:
        return []
