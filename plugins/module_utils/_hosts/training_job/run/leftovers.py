# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Deletes what attempts and jobs leave on a host."""

from __future__ import annotations

import contextlib
import os
import time

from ...._job.directories import delete, private_directories, runtime_directories
from ...._job.documents import ProcessSpec
from . import stale_locks

# The name of a file in a process's directory on its host. The file exists once the process's unit is ending.
ENDED = "ended"


def clean_up(spec: ProcessSpec, before: float) -> None:
    """Delete what an attempt that ended before the given time (in seconds since 1970) has left on this host.

    This includes the files in the job's private directories, and the locks in the caches of its user. Every process that may have written
    these files has ended. Processes of the next attempt may already have started, and may have set the modification times of their files.
    """
    for directory in private_directories(spec["job"]).values():
        with contextlib.suppress(OSError):
            paths = [os.path.join(directory, name) for name in os.listdir(directory)]
            delete([path for path in paths if os.lstat(path).st_ctime < before])
    stale_locks.delete(cache_environment(spec), before)


def cache_environment(spec: ProcessSpec) -> dict[str, str]:
    return {**os.environ, **spec["environment"]}


def clean_up_last(spec: ProcessSpec, path: str) -> None:
    """Delete what the job has left on this host if all units of the job on this host have ended."""
    with open(os.path.join(os.path.dirname(path), ENDED), "w", encoding="utf-8"):
        pass
    if all(os.path.exists(os.path.join(directory, ENDED)) for directory in runtime_directories(spec["job"])):
        stale_locks.delete(cache_environment(spec), time.time())
        errors = []
        for directory in private_directories(spec["job"]).values():
            try:
                delete([os.path.join(directory, name) for name in os.listdir(directory)])
            except FileNotFoundError:
                pass
            except OSError as error:  # for example because code in /tmp is still mounted
                errors.append(error)
        if errors:
            raise errors[0]
