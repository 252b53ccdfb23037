# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds lock files in the caches of a job's user whose processes have ended.

torch's extension builder, matplotlib and filelock's SoftFileLock wait for as long as such a file exists. A killed process leaves it.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import re
import stat
import time
from typing import Iterator, Mapping

from ...._common.shared_storage.mounts import is_shared
from .storage_watch import file_system

# Directories in the home directory, and variables with the paths of directories, in which frameworks keep their caches.
CACHES = (".cache", ".triton", ".keras", ".config/matplotlib")
VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "MPLCONFIGDIR", "TORCH_EXTENSIONS_DIR", "TORCH_HOME", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")

LOCK = re.compile(r"lock|.+[.-]lock")
# A lock is empty or names its process, and its host or the time. Other files with such names, such as poetry.lock, have other contents.
CONTENT, CONTENT_LIMIT = re.compile(rb"(\d+(\s+[\w.-]+)?\s*)?"), 300

# Maximum length of a path in a message.
PATH_LIMIT = 150

# Maximum number of seconds for reading the caches.
PATIENCE = 3.0


def delete(environment: Mapping[str, str], before: float) -> None:
    """Delete the stale locks that last changed before the given time (in seconds since 1970), on the host's own disks.

    Other hosts may hold locks on shared storage.
    """
    for path in find(environment, before):
        with contextlib.suppress(OSError):
            if not is_shared(file_system(os.path.dirname(path))):
                _unlink(path)


def _unlink(path: str) -> None:
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a process may have locked it in the meantime
        os.unlink(path)


def first(environment: Mapping[str, str], before: float) -> str:
    """Return the first stale lock whose path fits into a message, or an empty string."""
    return next((path for path in find(environment, before) if len(path) <= PATH_LIMIT), "")


def find(environment: Mapping[str, str], before: float) -> list[str]:
    """Return the locks that last changed before the given time and that no process of the user has open on this host."""
    places = [os.path.join(environment.get("HOME", ""), name) for name in CACHES]
    places += [environment.get(name, "") for name in VARIABLES]
    found = {path: status for place in dict.fromkeys(places) if os.path.isabs(place) for path, status in _locks(place, before)}
    if not found:
        return []
    held = _open_files()
    return sorted(path for path, status in found.items() if (status.st_dev, status.st_ino) not in held)


def _locks(place: str, before: float) -> Iterator[tuple[str, os.stat_result]]:
    end = time.monotonic() + PATIENCE
    for folder, _folders, names in os.walk(place):
        if time.monotonic() > end:
            return
        for path in (os.path.join(folder, name) for name in names if LOCK.fullmatch(name)):
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode) and status.st_ctime < before and _is_lock(path, status.st_size):
                    yield path, status


def _is_lock(path: str, size: int) -> bool:
    if size > CONTENT_LIMIT:
        return False
    with open(path, "rb") as file:
        return CONTENT.fullmatch(file.read(CONTENT_LIMIT)) is not None


def _open_files() -> set[tuple[int, int]]:
    """Return the device and inode of each file that a process has open, as far as this user can see the processes."""
    found = set()
    for path in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            status = os.stat(path)
            found.add((status.st_dev, status.st_ino))
    return found
