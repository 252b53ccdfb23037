# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds out to which of a job's directories on this host the job cannot write.

Error messages often do not name a full disk: torch.save(), for example, says `iostream error`. After a failure, a supervisor therefore
writes a small file to each directory that the job may write to. A process can free space when it ends, for example because it deletes an
incomplete checkpoint, so the free space is also read while the job runs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import threading
import time
from typing import Callable, Iterable, Mapping

from ...._common.shared_storage.mounts import is_shared
from ...._job.storage_problems import INODES, LIMIT, QUOTA, READ_ONLY, SPACE, StorageProblem

# Directories to which every job can write: for temporary files and for the shared memory of data loaders.
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")

# A file system with less free space than this number of bytes is full. A file of this size is written after a failure.
NEEDED = 1 << 16
# Seconds between two readings of the free space.
INTERVAL = 2.0
# Seconds after which a reading no longer explains a failure.
RECENT = 10.0
# Maximum number of seconds for reading all directories. Storage that hangs must delay neither a job nor the record of its failure.
PATIENCE = 5.0
# Maximum number of directories.
DIRECTORIES = 40


def directories(first: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Return the directories to which a job may write: the `first`, those for temporary files, the user's, and those in its environment.

    Caches and outputs of frameworks have their own variables, such as `HF_HOME`, so each absolute path in the environment counts.
    """
    home = environment.get("HOME", "")
    own = [home, os.path.join(home, ".cache"), *sorted(environment.values())]
    return [path for path in dict.fromkeys([*first, *TEMPORARY, *own]) if os.path.isabs(path)][:DIRECTORIES]


class StorageWatch:
    """Watches the directories of a job on this host, except those to which the job cannot write at the start."""

    def __init__(self) -> None:
        self._places: list[str] = []
        self._seen: dict[str, tuple[float, int, StorageProblem]] = {}  # for each directory: time, device, problem

    def start(self, places: list[str]) -> None:
        """Watch these directories from now on, in a thread. Only the first call has an effect."""
        if not self._places:
            _in_time(lambda: self._choose(places))
            threading.Thread(target=self._run, daemon=True).start()

    def problems(self) -> list[StorageProblem]:
        """Return the problems now or a few seconds ago, in the order of the directories. Each file system is reported once."""
        _in_time(lambda: self._look(write_problem))
        latest = time.monotonic() - RECENT
        seen = dict(self._seen)
        found: dict[tuple[int, str], StorageProblem] = {}
        for noted, device, problem in (seen[path] for path in self._places if path in seen):
            if noted >= latest:
                found.setdefault((device, problem.problem), problem)
        return list(found.values())[:LIMIT]

    def _choose(self, places: list[str]) -> None:
        self._places = [path for path in places if not os.path.isdir(path) or os.access(path, os.W_OK)]

    def _run(self) -> None:
        while True:
            self._look(free_problem)
            time.sleep(INTERVAL)

    def _look(self, find: Callable[[str], StorageProblem | None]) -> None:
        for path in self._places:
            with contextlib.suppress(OSError):
                found = find(path) if os.path.isdir(path) else None
                if found:
                    self._seen[path] = (time.monotonic(), os.stat(path).st_dev, found)


def free_problem(path: str) -> StorageProblem | None:
    """Return the problem of a directory according to its file system, or None. Raises OSError.

    The free space excludes blocks that are reserved for root. A file system without a limit on files reports 0 inodes.
    """
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize
    if status.f_flag & os.ST_RDONLY:
        return _problem(path, READ_ONLY)
    if free < NEEDED:
        return _problem(path, SPACE)
    return _problem(path, INODES) if status.f_files and not status.f_favail else None


def write_problem(path: str) -> StorageProblem | None:
    """Return the problem that prevents a small file in the directory, or None. Raises OSError.

    The file has no name, or is deleted at once. Network file systems report some errors only when a file is synchronized.
    """
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"\0" * NEEDED)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        kinds = {errno.ENOSPC: SPACE, errno.EDQUOT: QUOTA, errno.EROFS: READ_ONLY}
        found = free_problem(path)
        return found or (_problem(path, kinds[error.errno]) if error.errno in kinds else None)
    return free_problem(path)


def _problem(path: str, kind: str) -> StorageProblem:
    status = os.statvfs(path)
    return StorageProblem(path, kind, status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize, is_shared(file_system(path)))


def file_system(path: str, table: str = "/proc/self/mountinfo") -> str:
    """Return the type of the file system that contains a directory, or an empty string if it is unknown. Raises OSError."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open(table, encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in file]
    return next((words[words.index("-") + 1] for words in lines if words[2] == number), "")


def _in_time(function: Callable[[], None]) -> None:
    """Run the function in a thread, and wait for it for a limited time."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(PATIENCE)
