# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds out between two attempts whether the supervisor's own host may run the next attempt."""

from __future__ import annotations

import socket
import time
from typing import Callable

from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions, recovery, schema
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.documents import ProcessSpec, Unfit

# The socket of the service that runs the health checks as root (see health_service.py).
SOCKET = "/run/deeplearning/health.sock"

# Maximum time in seconds for the checks. Each check has a shorter limit, and a check that exceeds its limit is a finding.
PATIENCE = 45.0
# Seconds between two polls of whether the supervisor must end.
INTERVAL = 0.5

# Maximum size of the service's response in bytes, and maximum number of characters of a finding in a record.
ANSWER_LIMIT, FINDING_LIMIT = 1 << 20, 500

FINDING: schema.Schema = {
    "severity": schema.one_of(recovery.REBOOT, recovery.REPLACE),
    "message": schema.text(),
    # The name of the job that the host starts again after a reboot.
    "reboots": schema.lenient(schema.text()),
}


def find_unfit(spec: ProcessSpec, is_ending: Callable[[], bool]) -> Unfit | None:
    """Return why this host must not run the next attempt, or None if it may: the worst finding of the health checks, or an exclusion."""
    checks = bool(spec["parameters"].get("health_check"))
    if checks:
        findings = ask(is_ending)
        worst = next((each for each in findings if each["severity"] == recovery.REPLACE), findings[0] if findings else None)
        if worst:
            found: Unfit = {"why": worst["severity"], "what": worst["message"].rstrip(". ")[:FINDING_LIMIT]}
            if spec["parameters"].get("reboot") and worst.get("reboots") == spec["job"]:
                found["reboots"] = True
            return found
    excluded = exclusions.describe_all(exclusions.read(spec["instance"]).exclusions, checks)
    return {"why": recovery.EXCLUDED, "what": excluded[:FINDING_LIMIT]} if excluded else None


def ask(is_ending: Callable[[], bool]) -> list[schema.Document]:
    """Return the findings of the health checks that require a reboot or a replacement of this host.

    The result is empty if the service is missing or does not answer.
    """
    answer, end = b"", time.monotonic() + PATIENCE
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(INTERVAL)
            connection.connect(SOCKET)
            while time.monotonic() < end and not is_ending() and len(answer) <= ANSWER_LIMIT:
                try:
                    part = connection.recv(1 << 16)
                except socket.timeout:
                    continue
                if not part:
                    return _findings(answer)
                answer += part
    except OSError:
        pass
    return []


def _findings(answer: bytes) -> list[schema.Document]:
    try:
        return [schema.conform(each, FINDING) for each in schema.parse_json(answer)]
    except (ValueError, TypeError, AttributeError):
        return []
