"""Auto-termination policies of clusters.

A cluster is idle while no step is pending or running, and nobody touches the file `BUSY` on the master. YARN applications do not exist.
Source: Amazon EMR Management Guide, "Using an auto-termination policy for Amazon EMR cluster cleanup".
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..context import CLOUD
from .checks import version
from .errors import invalid
from .nodes import Node

BUSY = "/emr/metricscollector/isbusy"
# The first releases of two lines with auto-termination, and the first release that reads the file.
FIRST_OF_5, FIRST_OF_6 = (5, 30, 0), (6, 1, 0)
FIRST_WITH_FILE = (6, 4, 0)
# Seconds of this machine for which the file shows activity: whatever touches the file does not notice that a test advances the clock.
RECENT = 120
# Seconds.
SHORTEST, USUAL, LONGEST = 60, 3600, 604_800


class AutoTermination:
    """The policy of a cluster, and since when the cluster has been idle."""

    def __init__(self, label: str, policy: Mapping[str, Any]) -> None:
        release = version(label)
        if release < (FIRST_OF_6 if release >= (6,) else FIRST_OF_5):
            raise invalid("Auto-termination is not available for this account when using this release of EMR.")
        self.timeout: int = policy.get("IdleTimeout", USUAL)
        if not SHORTEST <= self.timeout <= LONGEST:
            raise invalid(f"IdleTimeout must be at least {SHORTEST} and at most {LONGEST} seconds.")
        self._reads_file = release >= FIRST_WITH_FILE
        self.see_activity()

    def see_activity(self) -> None:
        self._since = CLOUD.clock.now()

    def has_expired(self, master: Node | None) -> bool:
        """Return whether the cluster, which has no active steps, has been idle for too long."""
        touched = CLOUD.hosts.modified(master.instance.id, BUSY) if master and self._reads_file else None
        if touched and time.time() - touched < RECENT:
            self.see_activity()
        return CLOUD.clock.now() - self._since >= self.timeout

    def describe(self) -> dict[str, int]:
        return {"IdleTimeout": self.timeout}
