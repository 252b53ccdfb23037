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
SEVERITIES = ("restart", recovery.REBOOT, recovery.REPLACE)

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
    """Reads the file if it has changed. Only findings after the time `since` (in seconds since 1970) count."""

    def __init__(self, since: float) -> None:
        self._since = since
        self._changed = 0

    def worst(self, now: float) -> PeriodicFinding | None:
        """Return the worst new finding, or None if there is none. A file that is not valid contains no findings."""
        try:
            changed = os.stat(PATH).st_mtime_ns
            if changed == self._changed:
                return None
            self._changed = changed
            document = schema.conform(schema.read_document(PATH), FINDINGS)
        except (OSError, ValueError):
            return None
        if not (self._since < document["time"] and abs(now - document["time"]) <= MAX_AGE):
            return None
        found = [PeriodicFinding(each["severity"], each["message"].rstrip(". ")[:MESSAGE_LIMIT]) for each in document["findings"]]
        return max(found, key=lambda finding: SEVERITIES.index(finding.severity), default=None)
