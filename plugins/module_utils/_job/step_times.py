# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds hosts that are slower than the others, based on the times that the ranks of a job need for their steps.

Scripts must report these times (docs/watching.md), because whole steps take equally long on ranks that wait for each other. The functions
are pure.
"""

from __future__ import annotations

import collections
import statistics
from typing import Any, Mapping, Sequence

from .documents import ProcessRecord
from .job_states import participants
from .job_status import StepTime
from .naming import WORKER

# The key in a progress entry whose value lists the step times of all ranks in seconds.
RANK_SECONDS = "rank_seconds"

# A host is slow if its step time exceeds the median of all hosts by this factor and by this number of seconds. Smaller differences depend
# on chance.
SLOW, SLOW_SECONDS = 1.2, 0.002

# The time of a rank is the median of its last reported times (at most this number). The second value is the maximum number of ranks whose
# times are used.
LAST_TIMES, RANKS_LIMIT = 101, 1 << 13

# Maximum duration of a step in seconds: one day.
TIME_LIMIT = 86400


class StepTimes:
    def __init__(self) -> None:
        self._entries: collections.deque[Sequence[Any]] = collections.deque(maxlen=LAST_TIMES)

    def add(self, entry: Mapping[str, Any]) -> None:
        times = entry.get(RANK_SECONDS)
        if isinstance(times, list) and times:
            self._entries.append(times[:RANKS_LIMIT])

    def result(self, hosts: Mapping[int, str]) -> list[StepTime]:
        """Return the step time of each host, slowest first.

        The step time of a host is the time of its slowest rank. `hosts` maps ranks to hosts.

        A rank whose host is unknown gets its own entry.
        """
        count = max(map(len, self._entries), default=0)
        slowest: dict[str, float] = {}
        for rank in range(count):
            known = [times[rank] for times in self._entries if rank < len(times) and _is_time(times[rank])]
            if known:
                name = hosts.get(rank, f"rank {rank}")
                slowest[name] = max(slowest.get(name, 0.0), statistics.median(known))
        median = statistics.median_low(slowest.values()) if slowest else 0.0
        limit = max(SLOW * median, median + SLOW_SECONDS)
        found = [StepTime(name=name, seconds=seconds, slow=median > 0 and seconds > limit) for name, seconds in slowest.items()]
        return sorted(found, key=lambda each: -each["seconds"])


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= TIME_LIMIT


def hosts_of_ranks(processes: Sequence[ProcessRecord]) -> dict[int, str]:
    """Return the host of each rank. The result is empty if the records do not show which host runs which rank.

    The record of mpirun also contains the ranks that daemons run on other hosts. The record of each elastic agent contains all ranks. If
    there are parameter servers, the ranks in the records differ from the ranks of the script.
    """
    found: dict[int, str] = {}
    for process in participants(processes):
        if process["part"] != WORKER or not found.keys().isdisjoint(process["ranks"]):
            return {}
        found.update(dict.fromkeys(process["ranks"], process["host"]))
    return found
