# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The states of a job and of its processes. Hosts run this file with the standard library alone."""

from __future__ import annotations

# No process has started yet. Only jobs have this state.
PENDING = "pending"
RUNNING = "running"
SUCCEEDED = "succeeded"
FAILED = "failed"
# Somebody ended it, or the failure of another process did.
STOPPED = "stopped"
# It has sent no heartbeat for too long.
LOST = "lost"

# How a job, or one of its processes, ends.
FINAL = (SUCCEEDED, FAILED, STOPPED, LOST)
OF_PROCESSES = (RUNNING, *FINAL)
OF_JOBS = (PENDING, *OF_PROCESSES)


def is_over(state: str) -> bool:
    """Return whether a job in this state, or a process, has ended."""
    return state not in (PENDING, RUNNING)
