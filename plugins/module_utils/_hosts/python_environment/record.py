# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The record beside an environment: which build it has, or who is building it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Iterator, NamedTuple, TextIO

#: Seconds between two polls of another host's build.
PAUSE = 1.0


class RefusalError(Exception):
    """There is no such environment here; the text says why and what to do."""


class Record(NamedTuple):
    """The record of a build, locked, and whether another host had to be waited for."""

    file: TextIO
    waited: bool

    def read(self) -> dict[str, Any]:
        """Return what the record says: nothing before the build is complete, `error` when it has failed."""
        self.file.seek(0)
        return parse(self.file.read())

    def write(self, contents: dict[str, Any]) -> None:
        self.file.truncate(0)
        json.dump(contents, self.file)
        self.file.flush()
        os.fsync(self.file.fileno())


def parse(text: str) -> dict[str, Any]:
    """Return a record from its text, which may be half written."""
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}


def read(path: str) -> dict[str, Any]:
    """Return the record at `path` without waiting for a build."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read())
    except FileNotFoundError:
        return {}


@contextlib.contextmanager
def exclusive(path: str, timeout: float) -> Iterator[Record]:
    """Open and lock a record. Raises RefusalError when another host keeps it longer than `timeout`.

    Record and lock are one file because hosts see the same of it: NFS asks the server when a file is opened or locked, and answers
    most other questions from what it has heard up to half a minute ago. The lock of a host that dies goes away.
    """
    end = time.monotonic() + timeout
    waited = False
    with open(path, "a+", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise RefusalError(
                        f"timed out after {timeout:.0f} s waiting for another host to build it. Wait, or give a longer timeout."
                    ) from None
                waited = True
                time.sleep(PAUSE)
        yield Record(file, waited)
