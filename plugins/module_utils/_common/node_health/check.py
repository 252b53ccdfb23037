# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The data types of health checks: the data that a check gets about its host, the check itself, and its findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Sequence, Tuple

from ..._text import clean_line

# The severities, least severe first. A node with a finding of `RESTART` or worse is unhealthy.
MONITOR, RESTART, REBOOT, REPLACE = SEVERITIES = ("monitor", "restart", "reboot", "replace")

# When a check runs: on demand, before a job, after all nodes have been checked, to compare two nodes, or on demand with idle GPUs.
ON_DEMAND, BEFORE_JOB, BETWEEN_NODES, DEEP = ("on_demand", "before_job", "between_nodes", "deep")
# Also: after a failed attempt of a job, on all hosts of the job; once after each boot; or at intervals while jobs run.
AFTER_FAILURE, BOOT, PERIODIC = ("after_failure", "boot", "periodic")
CONTEXTS = (ON_DEMAND, BEFORE_JOB, BETWEEN_NODES, DEEP, AFTER_FAILURE, BOOT, PERIODIC)

# The contexts of checks of the host itself. If such a check requires a reboot or a replacement of a host, a job continues only
# without this host. The shared storage is not checked after a failure, because the supervisors cannot decide anything without it.
OF_HOST = (ON_DEMAND, BEFORE_JOB, AFTER_FAILURE, BOOT)

# The names of the collection's checks, which the users' own checks cannot have.
NAMES = (
    *("clock", "disks", "root", "memory", "names", "certificates", "efa", "xid", "dcgm"),
    *("storage", "storage_of_peer", "storage_hang"),
    *("gpu_count", "gpu_errors", "gpu_processes", "gpu_links", "gpu_fabric"),
)

# The advice for what the configuration of the host repairs.
CONFIGURE = "Run deeplearning.cluster.configure."

# The maximum length of a message about a problem.
MESSAGE_LIMIT = 500

# A severity, and one or more sentences about the problem. A colon separates the subject, such as a path, from the rest.
Problem = Tuple[str, str]


class HealthFinding(NamedTuple):
    """A problem, and the name of the check that found it."""

    check: str
    severity: str
    message: str


@dataclass(frozen=True)
class CheckedNode:
    """The data about a host that the controller passes to the checks."""

    # The login user. Paths that other users can change are never used as root.
    user: str
    instance_type: str = ""
    # Number of Elastic Fabric Adapters.
    efa_devices: int = 0
    # Directories whose file systems must have free space. Missing directories are skipped.
    disks: tuple[str, ...] = ()
    metadata_directory: str = "/opt/deeplearning"
    number: int = 0
    # A random string that is the same for all nodes. If `token` is set, the files that nodes write to the shared storage are kept for
    # `BETWEEN_NODES`.
    token: str = ""
    # Number of the node whose files the checks read in the context `BETWEEN_NODES`.
    peer: int = 0


@dataclass(frozen=True)
class Check:
    """One row of the table of health checks.

    `read(node)` reads the state of the host, and `decide(state, node)` returns the problems in this state without reading anything else.
    Checks with the same `read` share one reading. A check without `read` runs on the controller.
    """

    name: str
    read: Callable[..., Any] | None
    decide: Callable[..., list[Problem]]
    # The severities of the problems that the check can report.
    severities: Sequence[str]
    # What the check reports, as one sentence.
    description: str
    contexts: Sequence[str] = (ON_DEMAND, BEFORE_JOB)
    # Maximum duration of the reading in seconds. If the reading takes longer, the check reports a problem with the severity `hanging`.
    limit: float = 5.0
    hanging: str = MONITOR
    # Returns why the reading can take longer on a host without faults, or an empty string. With a reason, the severity is `MONITOR`.
    why_slow: Callable[[], str] = str
    # Whether to read as the login user instead of root.
    as_user: bool = False
    # The subject of the message about a reading that takes too long.
    subject: str = ""
    # Whether the check runs once for each mount of shared storage. The mount is then the first argument of `read` and `decide`.
    per_mount: bool = False
    # Whether an exclusion that the check makes lasts at least until the next boot, even if the check passes, because messages in a log can
    # disappear without a repair.
    until_boot: bool = False


def shortened(message: str) -> str:
    """Return a message as one line of limited length."""
    line = clean_line(message).strip()
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 3] + "..."


def is_unhealthy(severity: str) -> bool:
    """Return whether a node with a problem of this severity should not run jobs."""
    return SEVERITIES.index(severity) >= SEVERITIES.index(RESTART)
