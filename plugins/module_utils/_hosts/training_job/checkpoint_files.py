# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds the complete checkpoints in a directory, and sets a checkpoint aside. Runs on hosts without Ansible.

Checkpoint formats differ, so only the names and times of top-level files and directories are considered.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat

from ansible_collections.deeplearning.cluster.plugins.module_utils._job.documents import Checkpoint

# The suffix of incomplete checkpoints. Scripts rename a checkpoint when it is complete.
INCOMPLETE = ".tmp"

# The prefix of the name of a checkpoint that was set aside. Scripts ignore hidden files.
SET_ASIDE = ".suspect-"

# Maximum number of directory entries to read when searching for a change or for a checkpoint.
ENTRIES = 10_000


def complete(place: str) -> list[Checkpoint]:
    """Return the complete checkpoints in a directory, newest first. The list is empty if the directory cannot be read."""
    found: list[Checkpoint] = []
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if not is_complete(entry.name):
                    continue
                with contextlib.suppress(OSError):  # the entry has been deleted in the meantime
                    found.append({"name": entry.name, "changed": entry.stat(follow_symlinks=False).st_mtime})
    except OSError:
        return []
    return sorted(found, key=lambda checkpoint: (checkpoint["changed"], checkpoint["name"]), reverse=True)


def has_complete(place: str) -> bool:
    """Return whether one of the first ENTRIES entries of a directory is a complete checkpoint."""
    try:
        with os.scandir(place) as entries:
            return any(is_complete(entry.name) for entry in itertools.islice(entries, ENTRIES))
    except OSError:
        return False


def newest_change(place: str) -> float:
    """Return the time of the last change in a directory, in seconds since 1970, or 0 if the directory cannot be read.

    Checkpoints that are being written count too. At most ENTRIES files and directories are considered.
    """
    newest = 0.0
    try:
        newest = os.stat(place).st_mtime
        with os.scandir(place) as entries:
            for entry in itertools.islice(entries, ENTRIES):
                with contextlib.suppress(OSError):
                    newest = max(newest, entry.stat(follow_symlinks=False).st_mtime)
    except OSError:
        pass
    return newest


def is_complete(name: str) -> bool:
    """Return whether a file or directory with this name is a complete checkpoint."""
    return not name.startswith(".") and not name.endswith(INCOMPLETE)


def set_aside(place: str, checkpoint: Checkpoint) -> None:
    """Rename a checkpoint, so that scripts use the previous checkpoint. Raises OSError.

    Each host of the job renames the checkpoint before the processes on that host start. If another host has already renamed the checkpoint,
    its name may belong to a newer checkpoint, which is not renamed.
    """
    path = os.path.join(place, checkpoint["name"])
    target = os.path.join(place, "{}{:.0f}-{}".format(SET_ASIDE, checkpoint["changed"], checkpoint["name"]))
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path, follow_symlinks=False)
        if found.st_mtime == checkpoint["changed"]:
            _move(path, target, stat.S_ISDIR(found.st_mode))


def _move(path: str, target: str, is_directory: bool) -> None:
    """Rename a file or directory. If the new name exists, append the first free number to it. Raises OSError.

    An empty file or directory reserves the new name. Otherwise, renaming could replace a checkpoint that another host or job has just set
    aside.
    """
    for number in itertools.count(1):
        name = target if number == 1 else f"{target}.{number}"
        with contextlib.suppress(FileExistsError):
            if is_directory:
                os.mkdir(name)
            else:
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW))
            break
    try:
        os.rename(path, name)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(name) if is_directory else os.unlink(name)
        raise
