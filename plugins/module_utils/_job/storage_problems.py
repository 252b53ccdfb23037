# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes why a job cannot write to a directory: a full file system, no free inodes, a used-up quota, or a read-only mount."""

from __future__ import annotations

from typing import NamedTuple, Sequence

SPACE, INODES, QUOTA, READ_ONLY = KINDS = ("space", "inodes", "quota", "read_only")

# Maximum number of problems in a record, and maximum number of characters of a path in a sentence.
LIMIT, PATH_LIMIT = 4, 200

WHAT_IS_WRONG = {
    SPACE: "was full ({free} of {size} free)",
    INODES: "had no free inodes",
    QUOTA: "had no space left within the user's disk quota",
    READ_ONLY: "was mounted read-only",
}
WHAT_TO_DO = {
    SPACE: "Free space in {place}",
    INODES: "Delete files in {place}",
    QUOTA: "Delete the user's files in {place}, or increase the quota",
    READ_ONLY: "Find out why {place} is mounted read-only",
}


class StorageProblem(NamedTuple):
    """Why a job cannot write to the directory `path`. `free` and `size` are the bytes of its file system that are free, and all bytes.

    `shared` is true if the directory is on shared storage, so that the problem concerns all hosts.
    """

    path: str
    problem: str
    free: int = 0
    size: int = 0
    shared: bool = False


def describe(problems: Sequence[StorageProblem]) -> str:
    """Return clauses such as `/checkpoints was full (0 bytes of 100 GiB free)`, joined with `and`."""
    words = (WHAT_IS_WRONG[each.problem].format(free=_amount(each.free), size=_amount(each.size)) for each in problems)
    return " and ".join(f"{each.path[:PATH_LIMIT]} {what}" for each, what in zip(problems, words))


def repair(problems: Sequence[StorageProblem], host: str) -> str:
    """Return what to do, such as `Free space in /checkpoints on worker2.`. `host` is the host on which the problems were found."""
    if not problems:
        return "Free space on the storage to which the script writes."
    first = problems[0]
    place = first.path[:PATH_LIMIT] + ("" if first.shared else f" on {host}")
    return WHAT_TO_DO[first.problem].format(place=place) + "."


def _amount(size: int) -> str:
    shift, unit = next(((shift, unit) for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")) if size >> shift), (0, "bytes"))
    return f"{size >> shift} {unit}"
