# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the periodic health checks have found on this host: a file that root writes and that supervisors read."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Mapping, NamedTuple

from . import failure_causes, schema

# The directory belongs to root. Everyone can read the file.
PATH = "/run/deeplearning/health/findings.json"

# The age in seconds up to which a finding counts. Supervisors read the file every 2 s. A supervisor that reads the file later was blocked
# by its storage. The storage now answers, so the finding that it does not answer is no longer true. Other findings count when the next
# checks report them again.
MAX_AGE = 5.0

# Maximum number of findings, and maximum number of characters in a finding.
FINDINGS_LIMIT, MESSAGE_LIMIT = 100, 500

# The severities that end an attempt, least severe first.
RESTART = "restart"
SEVERITIES = (RESTART, failure_causes.REBOOT, failure_causes.REPLACE)

# The highest process ID of Linux. Source: PID_MAX_LIMIT in include/linux/threads.h of Linux.
PID_LIMIT = 1 << 22

FINDING: schema.Schema = {
    "severity": schema.one_of(*SEVERITIES),
    "message": schema.text(),
    # The process that has caused the problem. A finding without a process concerns the whole host.
    "pid": schema.optional(schema.integer(0, PID_LIMIT)),
}
FINDINGS: schema.Schema = {
    "time": schema.seconds(),
    "findings": schema.list_of(schema.mapping(FINDING), FINDINGS_LIMIT),
}


class PeriodicFinding(NamedTuple):
    """A problem that ends an attempt of a job. `message` has no full stop."""

    severity: str
    message: str


def write(findings: Iterable[Mapping[str, Any]], now: float) -> None:
    """Replace the file with these findings atomically."""
    chosen = [{name: each.get(name) for name in FINDING} for each in findings if each["severity"] in SEVERITIES]
    schema.replace_document(PATH, {"time": now, "findings": chosen[:FINDINGS_LIMIT]})


class PeriodicFindings:
    """Reads the file if it has changed. Only findings after the time `since` (in seconds since 1970) count.

    A finding with the severity `restart` counts only if the checks before did not have it. The job may not be responsible for it, so it can
    stay although the job has been restarted. If such a finding names a process, it counts only for the job of this process.
    """

    def __init__(self, since: float) -> None:
        self._since = since
        self._changed = 0
        self._known = _messages(self._read())

    def worst(self, now: float, own_processes: Callable[[], Iterable[int]]) -> PeriodicFinding | None:
        """Return the worst new finding, or None if there is none. A file that is not valid contains no findings.

        `own_processes` returns the IDs of the job's processes. It is called only if a finding names a process.
        """
        document = self._read()
        if document is None:
            return None
        known, reported = self._known, _messages(document)
        is_current = self._since < document["time"] and abs(now - document["time"]) <= MAX_AGE
        self._known = reported if is_current else known & reported
        if not is_current:
            return None

        def concerns_job(finding: schema.Document) -> bool:
            return finding.get("pid") is None or finding["pid"] in own_processes()

        found = [
            PeriodicFinding(each["severity"], each["message"].rstrip(". ")[:MESSAGE_LIMIT])
            for each in document["findings"]
            if each["severity"] != RESTART or (each["message"] not in known and concerns_job(each))
        ]
        return max(found, key=lambda finding: SEVERITIES.index(finding.severity), default=None)

    def _read(self) -> schema.Document | None:
        """Return the contents of the file, or None if they have not changed or are not valid."""
        try:
            changed = os.stat(PATH).st_mtime_ns
            if changed == self._changed:
                return None
            self._changed = changed
            return schema.conform(schema.read_document(PATH), FINDINGS)
        except (OSError, ValueError):
            return None


def _messages(document: schema.Document | None) -> set[str]:
    return {each["message"] for each in document["findings"] if each["severity"] == RESTART} if document else set()
