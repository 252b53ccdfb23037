# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The states of a job and of its processes. This code runs on hosts and imports only the standard library."""

from __future__ import annotations

# No process has started yet. Only jobs have this state.
PENDING = "pending"
# The job waits in a queue. Only jobs have this state.
QUEUED = "queued"
RUNNING = "running"
SUCCEEDED = "succeeded"
FAILED = "failed"
# Stopped by an operator, or because another process failed.
STOPPED = "stopped"
# No heartbeat has arrived within the timeout.
LOST = "lost"

# The export is between two passes. Only exports have this state.
WAITING = "waiting"

# The final states of a job or of one of its processes.
FINAL = (SUCCEEDED, FAILED, STOPPED, LOST)
OF_PROCESSES = (RUNNING, *FINAL)
OF_JOBS = (PENDING, QUEUED, *OF_PROCESSES)


def is_over(state: str) -> bool:
    return state not in (PENDING, QUEUED, RUNNING)
