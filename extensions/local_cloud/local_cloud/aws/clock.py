"""Delayed calls."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable


class Clock:
    """Delayed calls. Entries are bound methods of saved objects, so that snapshots can contain them."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` after this many seconds, or immediately if `seconds` is 0."""
        if seconds <= 0:
            action()
        else:
            self._number += 1
            heapq.heappush(self._entries, (time.time() + seconds, self._number, action))

    def run_due(self) -> None:
        """Make the delayed calls that are due."""
        while self._entries and self._entries[0][0] <= time.time():
            heapq.heappop(self._entries)[2]()
