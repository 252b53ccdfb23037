# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Divides files among ranks, and objects among hosts that fetch them together. Pure, and the same everywhere."""

from __future__ import annotations

import heapq
import re
from typing import Callable, List, Sequence, Tuple, TypeVar

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.source import File

Item = TypeVar("Item")
# So many groups for each host make shares that differ little.
GROUPS_PER_SHARE = 8

Patterns = List[str]
Group = Tuple[str, List[File]]


def balanced(items: Sequence[Item], count: int, size: Callable[[Item], int]) -> list[list[Item]]:
    """Return `count` lists of nearly the same size: each item, the largest first, goes where there is least so far."""
    result: list[list[Item]] = [[] for _number in range(count)]
    heap = [(0, 0, number) for number in range(count)]
    for item in sorted(items, key=size, reverse=True):
        total, length, number = heapq.heappop(heap)
        result[number].append(item)
        heapq.heappush(heap, (total + size(item), length + 1, number))
    return result


def shards(files: Sequence[File], count: int) -> list[list[File]]:
    """Return the files of each of `count` ranks, in the order of their paths."""
    return [sorted(shard) for shard in balanced(sorted(files), count, lambda file: file[1])]


def patterns(files: Sequence[File], count: int) -> list[Patterns]:
    """Return for each of `count` hosts the patterns of the objects that it fetches, as `aws s3 sync --include` takes them.

    Objects go together by what their paths begin with, so that a few patterns say which of a million are meant.
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
    # Each object costs a request, however small it is.
    return sum(size + 1 for _path, size in group[1])


def _divided(group: Group) -> list[Group]:
    """Return the groups of those of a group that have the next character in common, beyond what all of them have."""
    files = group[1]
    first, last = files[0][0], files[-1][0]
    common = next((place for place, pair in enumerate(zip(first, last)) if pair[0] != pair[1]), len(first))
    parts: dict[str, list[File]] = {}
    for path, size in files:
        parts.setdefault(path[: common + 1], []).append((path, size))
    return list(parts.items())


def _pattern(group: Group) -> str:
    prefix, files = group
    exact = len(files) == 1
    text = re.sub(r"([*?\[])", r"[\1]", files[0][0] if exact else prefix)
    return text if exact else text + "*"
