# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Divides files among ranks, and S3 objects among the hosts that fetch them.

The functions are pure, so they return the same result on all hosts.
"""

from __future__ import annotations

import heapq
import re
from typing import Callable, List, Sequence, Tuple, TypeVar

from ..._common.dataset.source import DataError, DatasetFile
from ..._words import plural

Item = TypeVar("Item")
# With this many groups per host, all shares have nearly the same size.
GROUPS_PER_SHARE = 8

Patterns = List[str]
Group = Tuple[str, List[DatasetFile]]


def balanced(items: Sequence[Item], count: int, size: Callable[[Item], int]) -> list[list[Item]]:
    """Divide the items into `count` lists of nearly equal total size, and return the lists.

    The items are added in descending order of size. Each item goes to the list with the smallest total so far.
    """
    result: list[list[Item]] = [[] for _number in range(count)]
    heap = [(0, 0, number) for number in range(count)]
    for item in sorted(items, key=size, reverse=True):
        total, length, number = heapq.heappop(heap)
        result[number].append(item)
        heapq.heappush(heap, (total + size(item), length + 1, number))
    return result


def shards(files: Sequence[DatasetFile], count: int) -> list[list[DatasetFile]]:
    """Return the files for each of `count` ranks, sorted by path."""
    return [sorted(shard) for shard in balanced(sorted(files), count, lambda file: file[1])]


def check_ranks(counts: Sequence[int], file_count: int | None) -> None:
    """Raise DataError if the files cannot be divided among so many ranks. `file_count` is None if the number of files is not yet known.

    Most frameworks wait forever for a rank without data.
    """
    for count in counts:
        if count < 1:
            raise DataError(f"dataset_shards: {count} is not a number of ranks. Use numbers greater than 0.")
        if file_count is not None and count > file_count:
            raise DataError(
                f"dataset_shards: of {count} ranks, {count - file_count} would get no file, because the data set has only "
                f"{plural(file_count, 'file', 'files')}. Use at most {plural(file_count, 'rank', 'ranks')}, or divide "
                "the data into more files."
            )


def patterns(files: Sequence[DatasetFile], count: int) -> list[Patterns]:
    """Divide the objects among `count` hosts, and return each host's patterns for `aws s3 sync --include`.

    Objects are grouped by path prefix, so that a few patterns can describe millions of objects.
    """
    groups: list[Group] = [("", sorted(files))]
    while len(groups) < GROUPS_PER_SHARE * count:
        largest = max((group for group in groups if len(group[1]) > 1), key=_bytes, default=None)
        if largest is None:
            break
        groups.remove(largest)
        groups += _divided(largest)
    return [[_pattern(group) for group in share] for share in balanced(sorted(groups), count, _bytes)]


def _bytes(group: Group) -> int:
    # Even an empty object costs a request, so one byte is added to the size of each object.
    return sum(size + 1 for _path, size in group[1])


def _divided(group: Group) -> list[Group]:
    """Split a group of objects at the first character where their paths differ, and return the smaller groups."""
    files = group[1]
    first, last = files[0][0], files[-1][0]
    common = next((place for place, pair in enumerate(zip(first, last)) if pair[0] != pair[1]), len(first))
    parts: dict[str, list[DatasetFile]] = {}
    for path, size in files:
        parts.setdefault(path[: common + 1], []).append((path, size))
    return list(parts.items())


def _pattern(group: Group) -> str:
    prefix, files = group
    exact = len(files) == 1
    return literal(files[0][0]) if exact else literal(prefix) + "*"


def literal(path: str) -> str:
    """Return the pattern of `aws s3 sync` that matches only this path."""
    return re.sub(r"([*?\[])", r"[\1]", path)
