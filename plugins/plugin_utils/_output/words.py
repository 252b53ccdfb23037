# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Numbers and times in sentences."""

from __future__ import annotations

import time


def duration(seconds: float) -> str:
    """Return a duration as text, such as `42 s`, `3 min 5 s` or `2 h 4 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return "{} min {} s".format(*divmod(whole, 60))
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def node_time(hours: float) -> str:
    """Return the time of nodes in total, such as `4.2 node-hours`, or `12.6 node-minutes` if it is less than an hour."""
    return f"{hours:,.1f} node-hours" if hours >= 1 else f"{60 * hours:.1f} node-minutes"


def moment(seconds: float | None) -> str:
    """Return a point in time as text (UTC), or `-` for None."""
    return "-" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def percent(share: float) -> str:
    """Return a share between 0 and 1 as a percentage."""
    return f"{100 * share:.1f} %"
