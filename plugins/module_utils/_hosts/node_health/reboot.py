# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decides whether this host reboots itself because of a health finding.

The host records its last reboot and the result of the checks after the last boot.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import IO, Any, Iterator, Mapping, Sequence

from ..._common.node_health.check import REBOOT, REPLACE, HealthFinding
from ..._job import directories, exclusions, schema
from .exclusion_by_checks import requires_exclusion

# Files in the directory of the exclusions, which only root can write: the result of the checks after the last boot, and the time of the
# last reboot because of a finding.
BOOT_RESULT, LAST_REBOOT = "boot.json", "reboot.json"

# Seconds between two reboots of the host.
PAUSE = 3600.0
# Seconds to wait until nothing runs on the host, and between two polls. The boot must also fit into recovery.REBOOT_PATIENCE.
PATIENCE, INTERVAL = 120.0, 1.0

FINDINGS: schema.Schema = {"findings": schema.list_of(schema.mapping({"check": schema.text(), "severity": schema.text()}))}
TIME: schema.Schema = {"time": schema.seconds()}


def is_needed(findings: Sequence[HealthFinding]) -> bool:
    """Return whether a reboot may repair the host. A host that should be replaced is not rebooted."""
    severities = {finding.severity for finding in findings}
    return REBOOT in severities and REPLACE not in severities


@contextlib.contextmanager
def idle_host() -> Iterator[str]:
    """Wait until no job and no export runs on this host, and hold the lock without which none starts.

    Yield why the host must not be rebooted, or an empty string if it may. After PATIENCE, exports no longer count: jobs can make their own
    exports last for long, and the next export uploads what is missing.
    """
    end = time.monotonic() + PATIENCE
    with directories.open_lock() as lock:
        is_late = False
        while not _lock_if_idle(lock, with_exports=not is_late):
            if is_late:
                yield "jobs are running on it"
                return
            time.sleep(INTERVAL)
            is_late = time.monotonic() > end
        yield ""


def _lock_if_idle(lock: IO[str], with_exports: bool) -> bool:
    """Take the lock, and return whether no job and, if requested, no export runs on this host. Otherwise, release the lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    is_idle = not directories.running_jobs() and not (with_exports and directories.running_exports())
    if not is_idle:
        fcntl.flock(lock, fcntl.LOCK_UN)
    return is_idle


def find_refusal(findings: Sequence[HealthFinding], now: float) -> str:
    """Return why the host must not be rebooted, or an empty string if it may."""
    if not is_needed(findings):
        return "no health check requires only a reboot"
    last = _read(LAST_REBOOT, TIME).get("time", 0.0)
    if now < last + PAUSE:
        return "the last reboot because of a health check was less than an hour ago"
    known = {each["check"] for each in _read(BOOT_RESULT, FINDINGS).get("findings", ()) if each["severity"] in (REBOOT, REPLACE)}
    again = sorted(known & {finding.check for finding in findings if requires_exclusion(finding)})
    if again:
        return f"the check {again[0]} has had a finding since the last boot"
    return ""


def record(now: float) -> str:
    """Record that a reboot begins. Return why the host must not be rebooted, or an empty string if it may."""
    try:
        write_document(LAST_REBOOT, {"time": now})
    except OSError:
        # A read-only disk is itself a reason for a reboot. Without a record, only the time since the last boot limits the reboots.
        if uptime() < PAUSE:
            return "the reboot cannot be recorded, and the last boot was less than an hour ago"
    return ""


def uptime(stat: str = "/proc/1/stat") -> float:
    """Return the number of seconds since the host's first process started."""
    with open(stat, encoding="utf-8", errors="replace") as file:
        started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def write_document(name: str, document: Mapping[str, Any]) -> None:
    """Replace a file in the directory of the exclusions atomically. Everyone can read the file."""
    schema.replace_document(os.path.join(os.path.dirname(exclusions.PATH), name), document)


def _read(name: str, form: schema.Schema) -> schema.Document:
    """Return the contents of a file in the directory of the exclusions, or an empty document if there are none or they are not valid."""
    try:
        return schema.conform(schema.read_document(os.path.join(os.path.dirname(exclusions.PATH), name)), form)
    except (OSError, ValueError):
        return {}
