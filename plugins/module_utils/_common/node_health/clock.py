# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Compares the host's clock with the controller's clock."""

from __future__ import annotations

from .check import MONITOR, RESTART, CheckedNode, Problem

# Clock differences in seconds. After a minute without a heartbeat, a process of a job counts as lost.
CLOCK_TOLERANCE, CLOCK_LIMIT = 5.0, 60.0


def decide_clock(times: tuple[float, float, float], _node: CheckedNode) -> list[Problem]:
    """Return a problem if a host's clock is wrong.

    `times` contains the controller's time before the module ran, the host's time while it ran, and the controller's time after it ran, in
    seconds since 1970. The clock error is the part of the time difference that the module's duration does not explain.
    """
    before, host, after = times
    difference = min(host - before, 0.0) or max(host - after, 0.0)
    if abs(difference) < CLOCK_TOLERANCE:
        return []
    words = f"{abs(difference):.0f} s {'ahead of' if difference > 0 else 'behind'} the controller's"
    return [
        (
            RESTART if abs(difference) >= CLOCK_LIMIT else MONITOR,
            f"clock: the host's clock is {words}. Check chronyd on the host, and check the controller's clock.",
        )
    ]
