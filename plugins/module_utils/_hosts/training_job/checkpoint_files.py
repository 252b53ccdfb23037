# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds the complete checkpoints in a directory, and sets one aside. Runs on hosts without Ansible.

Formats differ, so only names and times of the files and directories at the top level count.
"""

from __future__ import annotations

import contextlib
import os

from ansible_collections.deeplearning.cluster.plugins.module_utils._job.documents import Checkpoint

# The suffix of incomplete checkpoints. Scripts rename a checkpoint when it is complete.
INCOMPLETE = ".tmp"

# The prefix of the name of a checkpoint that was set aside. Scripts ignore hidden files.
SET_ASIDE = ".suspect-"


def complete(place: str) -> list[Checkpoint]:
    """Return the complete checkpoints in a directory, newest first. The list is empty if the directory cannot be read."""
    found: list[Checkpoint] = []
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if not is_complete(entry.name):
                    continue
                with contextlib.suppress(OSError):  # deleted in the meantime
                    found.append({"name": entry.name, "changed": entry.stat(follow_symlinks=False).st_mtime})
    except OSError:
        return []
    return sorted(found, key=lambda checkpoint: (checkpoint["changed"], checkpoint["name"]), reverse=True)


def is_complete(name: str) -> bool:
    """Return whether a file or directory with this name is a complete checkpoint."""
    return not name.startswith(".") and not name.endswith(INCOMPLETE)


def set_aside(place: str, checkpoint: Checkpoint) -> None:
    """Rename a checkpoint, so that scripts use the one before it. Raises OSError.

    Each host of the job does this before its processes start. If another host has been faster, the name may belong to a newer checkpoint,
    which is left alone.
    """
    path = os.path.join(place, checkpoint["name"])
    target = os.path.join(place, "{}{:.0f}-{}".format(SET_ASIDE, checkpoint["changed"], checkpoint["name"]))
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path, follow_symlinks=False).st_mtime == checkpoint["changed"]:
            os.rename(path, target)
