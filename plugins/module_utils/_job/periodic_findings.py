# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the periodic health checks have found on this host: a file that root writes and that supervisors read.

This code also runs on hosts without Ansible and imports only the standard library.
"""

from __future__ import annotations

import json
import os
from typing import Iterable, Mapping, NamedTuple

from ansible_collections.deeplearning.cluster.plugins.module_utils._job import recovery, schema

# The directory belongs to root. Everyone can read the file.
PATH = "/run/deeplearning/health/findings.json"

# The age in seconds up to which a finding counts. A supervisor that reads the file late was blocked by its storage, and the finding may no
# longer be true. If it is true, the next checks report it again.
MAX_AGE = 30.0

# Maximum number of findings, and maximum number of characters in a finding.
FINDINGS_LIMIT, MESSAGE_LIMIT = 100, 500

# The severities that end an attempt, least severe first.
RESTART = "restart"
SEVERITIES = (RESTART, recovery.REBOOT, recovery.REPLACE)

FINDING: schema.Schema = {"severity": schema.one_of(*SEVERITIES), "message": schema.text()}
FINDINGS: schema.Schema = {
    "time": schema.seconds(),
    "findings": schema.list_of(schema.mapping(FINDING), FINDINGS_LIMIT),
}


class PeriodicFinding(NamedTuple):
    """A problem that ends an attempt of a job. `message` has no full stop."""

    severity: str
    message: str


def write(findings: Iterable[Mapping[str, str]], now: float) -> None:
    """Replace the file with these findings atomically."""
    chosen = [{name: each[name] for name in FINDING} for each in findings if each["severity"] in SEVERITIES]
    os.makedirs(os.path.dirname(PATH), mode=0o755, exist_ok=True)
    temporary = PATH + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)
        json.dump({"time": now, "findings": chosen[:FINDINGS_LIMIT]}, file)
    os.replace(temporary, PATH)


class PeriodicFindings:
    """Reads the file if it has changed. Only findings after the time `since` (in seconds since 1970) count.

    A finding with the severity `restart` counts only if the checks before did not have it. The job may not be responsible for it, so it can
    stay although the job has been restarted.
    """

    def __init__(self, since: float) -> None:
        self._since = since
        self._changed = 0
        self._known = _messages(self._read())

    def worst(self, now: float) -> PeriodicFinding | None:
        """Return the worst new finding, or None if there is none. A file that is not valid contains no findings."""
        document = self._read()
        if document is None:
            return None
        known, self._known = self._known, _messages(document)
        if not (self._since < document["time"] and abs(now - document["time"]) <= MAX_AGE):
            return None
        found = [
            PeriodicFinding(each["severity"], each["message"].rstrip(". ")[:MESSAGE_LIMIT])
            for each in document["findings"]
            if each["severity"] != RESTART or each["message"] not in known
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
    """Return the messages of the findings with the severity `restart`."""
    return {each["message"] for each in document["findings"] if each["severity"] == RESTART} if document else set()
