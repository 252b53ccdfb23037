# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds out between two attempts whether the supervisor's own host may run the next attempt."""

from __future__ import annotations

import socket
import time
from typing import Callable

from ...._job import exclusions, failure_causes, schema
from ...._job.documents import ProcessSpec, Unfit

# The socket of the service that runs the health checks as root (see install_health_service.py).
SOCKET = "/run/deeplearning/health.sock"

# Maximum time in seconds for the checks. Each check has a shorter limit, and a check that exceeds its limit is a finding.
PATIENCE = 45.0
# Seconds without a socket after which the service counts as missing. While the service is replaced, there is no socket for a moment.
ABSENCE = 3.0
# Seconds between two polls of whether the supervisor must end, and between two requests.
INTERVAL = 0.5

# Maximum size of the service's response in bytes, and maximum number of characters of a finding in a record.
ANSWER_LIMIT, FINDING_LIMIT = 1 << 20, 500

FINDING: schema.Schema = {
    "severity": schema.one_of(failure_causes.REBOOT, failure_causes.REPLACE),
    "message": schema.text(),
    # The name of the job that the host starts again after a reboot.
    "reboots": schema.lenient(schema.text()),
}


def find_unfit(spec: ProcessSpec, is_ending: Callable[[], bool]) -> Unfit | None:
    """Return why this host must not run the next attempt, or None if it may: the worst finding of the health checks, or an exclusion."""
    checks = spec["parameters"]["health_check"]
    if checks:
        findings = ask(is_ending)
        worst = next((each for each in findings if each["severity"] == failure_causes.REPLACE), findings[0] if findings else None)
        if worst:
            found: Unfit = {"why": worst["severity"], "what": worst["message"].rstrip(". ")[:FINDING_LIMIT]}
            if spec["parameters"]["reboot"] and worst.get("reboots") == spec["job"]:
                found["reboots"] = True
            return found
    excluded = exclusions.describe_all(exclusions.read(spec["instance"]).exclusions, checks)
    return {"why": failure_causes.EXCLUDED, "what": excluded[:FINDING_LIMIT]} if excluded else None


def ask(is_ending: Callable[[], bool]) -> list[schema.Document]:
    """Return the findings of the health checks that require a reboot or a replacement of this host.

    A request without a valid answer is repeated. The result is empty if the service is missing or does not answer.
    """
    began = time.monotonic()
    while not is_ending():
        patience = PATIENCE
        try:
            return _findings(_request(began + PATIENCE, is_ending))
        except (FileNotFoundError, ConnectionRefusedError):
            patience = ABSENCE
        except (OSError, ValueError):
            pass
        if time.monotonic() + INTERVAL > began + patience:
            break
        time.sleep(INTERVAL)
    return []


def _request(end: float, is_ending: Callable[[], bool]) -> bytes:
    """Request the health checks, and return the answer. Raises OSError if there is no complete answer."""
    answer = b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(INTERVAL)
        connection.connect(SOCKET)
        while time.monotonic() < end and not is_ending() and len(answer) <= ANSWER_LIMIT:
            try:
                part = connection.recv(1 << 16)
            except socket.timeout:
                continue
            if not part:
                return answer
            answer += part
    raise OSError("there is no complete answer")


def _findings(answer: bytes) -> list[schema.Document]:
    """Return the findings in an answer. Raises ValueError if the answer is not valid."""
    findings = schema.parse_json(answer)
    if not isinstance(findings, list) or not all(isinstance(each, dict) for each in findings):
        raise schema.SchemaError("the answer is not a list of objects")
    return [schema.conform(each, FINDING) for each in findings]
