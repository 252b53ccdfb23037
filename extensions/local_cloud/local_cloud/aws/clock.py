"""Delayed calls, and a clock that tests can advance."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable


class Clock:
    """Delayed calls. Entries are bound methods of saved objects, so that snapshots can contain them.

    The clock shows this machine's time and what it has been advanced by. All times in answers of AWS, the due times of delayed calls and of
    schedules, and the time that functions see are times of this clock. What is compared with the clocks of clients and hosts keeps this
    machine's time: signatures, sessions, and the metadata of instances. So does what really takes time: polls of hosts, steps of EMR
    clusters, and attempts of groups to launch instances.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._advanced = 0.0

    def now(self) -> float:
        """Return the time of the clock in seconds since the epoch."""
        return time.time() + self._advanced

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` after this many seconds, or immediately if `seconds` is 0."""
        if seconds <= 0:
            action()
        else:
            self._number += 1
            heapq.heappush(self._entries, (self.now() + seconds, self._number, action))

    def run_due(self) -> None:
        """Make the delayed calls that are due."""
        while self._entries and self._entries[0][0] <= self.now():
            heapq.heappop(self._entries)[2]()

    def step(self, end: float) -> bool:
        """Advance the clock to the next delayed call, and make this call. If none is due until `end`, advance to `end` and return False."""
        has_next = bool(self._entries) and self._entries[0][0] <= end
        self._advanced += max(0.0, (self._entries[0][0] if has_next else end) - self.now())
        if has_next:
            heapq.heappop(self._entries)[2]()
        return has_next

    def reset(self) -> None:
        """Show this machine's time again. Delayed calls keep the time until they are due."""
        self._entries = [(due - self._advanced, number, action) for due, number, action in self._entries]
        self._advanced = 0.0
