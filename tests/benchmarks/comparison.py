"""Compares pairs of measured times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def report(pairs: Sequence[tuple[float, float]], ours: str, theirs: str, goal: float, until: str = "to first line") -> bool:
    """Print the median times in seconds, by default until the script prints its first line. Return whether the median difference meets the
    goal.

    Each pair contains a time for `ours` and a time for `theirs`. These names are also the titles of the columns.
    """
    medians = [statistics.median(each) for each in zip(*pairs, strict=True)]
    more = statistics.median(each - other for each, other in pairs)
    print(f"\n{'median seconds':16}{ours:>12}{theirs:>12}{'more':>8}{'goal':>8}")
    print(f"{until:16}{medians[0]:12.2f}{medians[1]:12.2f}{more:8.2f}{goal:8.2f}")
    return more <= goal
