# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Records the failures that hosts have caused, and excludes a host after several of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from typing import Mapping

from . import failure_causes
from .exclusions import RECOVERY, Exclusion, Memory, exclude

# Number of failures after which a host is excluded. See `failure_causes.BROKEN_HOST`.
FAILURES = 2

# The directory next to the job directories that contains an empty file for each failure of a host. All jobs can write to this directory.
FAILURES_DIRECTORY = ".host-failures"
# Maximum number of files to read from this directory.
FAILURES_LIMIT = 1 << 14
# Maximum number of recorded failures that are returned, which are the last ones.
FAILURES_READ = 64
FAILURE = re.compile(r"(?P<node>[A-Za-z0-9._-]+),(?P<job>[a-z0-9-]{1,63}),(?P<attempt>[1-9][0-9]{0,3})")


def after_failures(memory: Memory, failures: Mapping[str, float], now: float) -> Memory:
    """Return the exclusions after the failures that this host has caused.

    `failures` contains the time of each failure, by its job and attempt. Failures count only from the last time at which a person included
    the host.
    """
    if any(each.by == RECOVERY for each in memory.exclusions):
        return memory
    # The owner of a file can set its time, so times in the future do not count.
    counted = sorted((moment, name) for name, moment in failures.items() if memory.included < moment <= now)
    if len(counted) < FAILURES:
        return memory
    names = ", ".join(name for _moment, name in counted[-FAILURES:])
    reason = f"{len(counted)} attempts of jobs failed because of this host, the last of them {names}"
    return exclude(memory, Exclusion(RECOVERY, reason, now))


def record_failure(directory: str, node: str, job: str, attempt: int) -> None:
    """Record that a host was the cause of a failure, if the directory for these records exists. Runs as the job's user.

    `directory` contains the job directories. `node` is the ID of the host's instance, or outside AWS its name.
    """
    path = os.path.join(directory, FAILURES_DIRECTORY, f"{node},{job},{attempt}")
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def make_failures_directory(directory: str) -> None:
    """Create the directory for the records of failures. Every user can add files, but only their owners can delete them."""
    path = os.path.join(directory, FAILURES_DIRECTORY)
    with contextlib.suppress(OSError):
        os.mkdir(path)
        os.chmod(path, 0o1777)


def read_failures(directory: str, node: str) -> dict[str, float]:
    """Return the last recorded failures of a host: the time of each failure, by its job and attempt. Runs as the job's user."""
    path = os.path.join(directory, FAILURES_DIRECTORY)
    found: dict[str, float] = {}
    if os.path.islink(path):
        return found
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in itertools.islice(entries, FAILURES_LIMIT):
            match = FAILURE.fullmatch(entry.name)
            if match and match["node"] == node:
                with contextlib.suppress(OSError):
                    found[f"attempt {match['attempt']} of {match['job']}"] = entry.stat(follow_symlinks=False).st_mtime
    return dict(sorted(found.items(), key=lambda item: item[1])[-FAILURES_READ:])


def is_recorded(kind: str) -> bool:
    return kind in failure_causes.BROKEN_HOST
