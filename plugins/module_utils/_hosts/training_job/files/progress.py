# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the progress that a job's script has written to its progress file."""

from __future__ import annotations

import os

from ...._job import schema
from ...._job.schema import Document, open_regular, parse_json

# Number of bytes at the end of the file in which to search for the last entry.
PROGRESS_TAIL = 4096

# Maximum size of the progress entries in one response, in bytes, and maximum number of values in them. Earlier entries are left out.
PROGRESS_LIMIT, PROGRESS_VALUES = 1 << 20, 10_000


def read_progress(path: str, offset: int) -> tuple[list[Document], int]:
    """Return the complete progress lines from byte `offset` onwards, and the offset for the next read.

    Only a faulty script writes lines that are not JSON objects. Such lines are skipped. Only a regular file is read.
    """
    try:
        with open_regular(path) as file:
            start = max(offset, file.seek(0, os.SEEK_END) - PROGRESS_LIMIT)
            file.seek(start)
            data = file.read(PROGRESS_LIMIT)
    except OSError:
        return [], offset
    complete = data[: data.rfind(b"\n") + 1]
    entries: list[Document] = []
    left = PROGRESS_VALUES
    for line in reversed(complete.splitlines()):
        entry = progress_entry(line)
        if entry is not None:
            left -= schema.count_values(entry, PROGRESS_VALUES)
            if left < 0:
                break
            entries.append(entry)
    return entries[::-1], start + len(complete)


def progress_entry(line: bytes) -> Document | None:
    try:
        entry = parse_json(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def last_progress(path: str) -> Document:
    try:
        start = max(0, os.path.getsize(path) - PROGRESS_TAIL)
    except OSError:
        return {}
    entries = read_progress(path, start)[0]
    return entries[-1] if entries else {}
