# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Deletes environment builds that are neither current nor used by a job."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import time
from typing import Any

from ..._common.python_environment.definition import BuildLocation
from .record import EnvironmentRefusalError, exclusive

DAY = 86400.0

DIGEST = re.compile(r"[0-9a-f]{12}")


def unused(directory: str, pythons: list[str], before: float) -> list[BuildLocation]:
    """Return the builds in a directory that are older than `before`, are not current, and contain none of the interpreters in `pythons`."""
    folders = glob.glob(os.path.join(glob.escape(directory), "*", "*-python*"))
    found = (BuildLocation(folder, digest) for folder in sorted(folders) for digest in _digests(folder))
    return [place for place in found if _built(place) < before and not _is_current(place) and not _is_used(place, pythons)]


def _digests(folder: str) -> list[str]:
    return sorted({name for name, _unused in map(os.path.splitext, os.listdir(folder)) if DIGEST.fullmatch(name)})


def _built(place: BuildLocation) -> float:
    times = []
    for path in (place.record, place.path):
        with contextlib.suppress(FileNotFoundError):
            times.append(os.lstat(path).st_mtime)
    return max(times, default=0.0)


def _is_current(place: BuildLocation) -> bool:
    try:
        return os.readlink(place.current) == place.digest
    except OSError:
        return False


def _is_used(place: BuildLocation, pythons: list[str]) -> bool:
    inside = os.path.join(os.path.realpath(place.path), "")
    # Resolve only the folders, because an environment's Python is itself a link to the system's Python.
    return any(os.path.join(os.path.realpath(os.path.dirname(python)), "").startswith(inside) for python in pythons)


def delete(place: BuildLocation) -> bool:
    """Delete a build unless another host is building it. Return whether the build was deleted. Raises OSError."""
    try:
        with exclusive(place.record, timeout=0) as record:
            # If the deletion is interrupted, the incomplete record makes the role build the environment again.
            record.write({})
            if os.path.lexists(place.path):
                shutil.rmtree(place.path)
            os.unlink(place.record)
    except EnvironmentRefusalError:
        return False
    return True


def clean_up(params: dict[str, Any], check_mode: bool) -> list[str]:
    """Delete unused builds and return their paths. In check mode, nothing is deleted. Raises OSError."""
    found = unused(params["directory"], params["pythons"], time.time() - params["days"] * DAY)
    return [place.path for place in found if check_mode or delete(place)]
