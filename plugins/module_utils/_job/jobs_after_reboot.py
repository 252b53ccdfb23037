# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keeps what a host needs to start its jobs again after a reboot because of a health finding (see _hosts/training_job/start/rejoin.py).

Each job has a file, in memory while the job runs and on the disk during a reboot. The files contain the secrets of jobs, so only root can
read them. A file stays in memory after the end of its job until a job starts or is stopped on the host, or until health checks run because
of a failure or at their interval.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os

from .._files import replace_file
from . import directories, exclusions
from .directories import running_jobs, runtime_directories

# The directory in memory, and the name of the directory on the disk.
STARTED, KEPT = "/run/deeplearning/rejoin", "rejoin"
SUFFIX = ".json"


def directory() -> str:
    """Return the directory of the files during a reboot, which is in the directory of the exclusions."""
    return os.path.join(os.path.dirname(exclusions.PATH), KEPT)


def job_of(path: str) -> str:
    return os.path.basename(path)[: -len(SUFFIX)]


def files(place: str) -> list[str]:
    """Return the paths of the files in a directory."""
    return sorted(glob.glob(os.path.join(place, f"*{SUFFIX}")))


def write(place: str, job: str, content: bytes) -> None:
    """Replace the file of a job in a directory atomically."""
    os.makedirs(place, mode=0o700, exist_ok=True)
    replace_file(os.path.join(place, job + SUFFIX), content)


def keep() -> str:
    """Copy the file of the job that runs on this host to the disk, and return the name of the job.

    Return an empty string if the file could not be copied, or if another job also runs on this host, so that the host might not reboot.
    """
    jobs = running_jobs()
    if len(jobs) != 1:
        return ""
    try:
        with open(os.path.join(STARTED, jobs[0] + SUFFIX), "rb") as file:
            write(directory(), jobs[0], file.read())
    except OSError:
        discard()
        return ""
    return jobs[0]


def discard() -> None:
    """Delete the files on the disk, including those that were not written completely."""
    for path in glob.glob(os.path.join(directory(), "*")):
        with contextlib.suppress(OSError):
            os.unlink(path)


def delete_ended() -> None:
    """Delete the files of jobs that have ended from the memory. The caller holds the lock without which no job starts."""
    for path in files(STARTED):
        if not runtime_directories(job_of(path)):
            os.unlink(path)


def delete_ended_unless_starting() -> None:
    """Delete the files of jobs that have ended from the memory, unless a job is being started, which deletes them itself.

    The file of a job that is being started exists before its processes.
    """
    if not files(STARTED):
        return
    with directories.open_lock() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        delete_ended()
