# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, writes and locks the record file next to an environment. The record describes a finished build, and is the lock during a build."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Iterator, NamedTuple, TextIO

from ..._files import parse_object

# Seconds between polls of another host's build.
PAUSE = 1.0


class EnvironmentRefusalError(Exception):
    """The environment cannot be provided on this host. The message states the reason and the remedy."""


class BuildRecord(NamedTuple):
    """The locked record of a build. `waited` is true if this host had to wait because another host held the lock."""

    file: TextIO
    waited: bool

    def read(self) -> dict[str, Any]:
        """Return the contents. The dictionary is empty until a build ends, and contains `error` if the build has failed."""
        self.file.seek(0)
        return parse_object(self.file.read())

    def write(self, contents: dict[str, Any]) -> None:
        self.file.truncate(0)
        json.dump(contents, self.file)
        self.file.flush()
        os.fsync(self.file.fileno())


@contextlib.contextmanager
def exclusive(path: str, timeout: float) -> Iterator[BuildRecord]:
    """Open and lock a record. Raises RefusalError if another host holds the lock for more than `timeout` seconds.

    The record itself is the lock file, so that all hosts see its current contents. An NFS client contacts the server when it opens or
    locks a file. For most other requests, the client uses a cache that may be up to 30 seconds old. If a host fails, its lock is
    released.
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
                    raise EnvironmentRefusalError(
                        f"timed out after {timeout:.0f} s waiting for another host to build the environment."
                        " Run the playbook again later, or set a longer timeout."
                    ) from None
                waited = True
                time.sleep(PAUSE)
        yield BuildRecord(file, waited)
