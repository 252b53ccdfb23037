# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Why a job cannot write to a directory: a full file system, no free inodes, a used-up quota, or a read-only mount."""

from __future__ import annotations

from typing import NamedTuple

SPACE, INODES, QUOTA, READ_ONLY = KINDS = ("space", "inodes", "quota", "read_only")

# Maximum number of problems in a record.
LIMIT = 4


class StorageProblem(NamedTuple):
    """Why a job cannot write to the directory `path`. `free` and `size` are the bytes of its file system that are free, and all bytes.

    `shared` is true if the directory is on shared storage, so that the problem concerns all hosts.
    """

    path: str
    problem: str
    free: int = 0
    size: int = 0
    shared: bool = False
