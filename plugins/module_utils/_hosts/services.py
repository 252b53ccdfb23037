# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converges the systemd services of this host."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Callable, NamedTuple

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

MUNGE = "munge.service"
DROP_INS = "/etc/systemd/system"
POLL_SECONDS = 1.0


class ServiceError(Exception):
    """A command or service has failed. The message states the reason and the remedy."""


class Service(NamedTuple):
    """Whether a unit is active, and whether it starts at boot."""

    active: bool
    enabled: bool


STOPPED, STARTED = Service(False, False), Service(True, True)


def drop_in(unit: str) -> str:
    return os.path.join(DROP_INS, f"{unit}.d", "deeplearning.conf")


def find_service(module: AnsibleModule, unit: str) -> Service:
    return Service(*(module.run_command(["systemctl", word, "--quiet", unit])[0] == 0 for word in ("is-active", "is-enabled")))


def converge_service(module: AnsibleModule, unit: str, wanted: Service, changed: bool = False) -> list[dict[str, str]]:
    """Start and enable a unit, or stop and disable it, and return the diffs. If `changed` is true, a running unit is restarted.

    Raises ServiceError. Check mode changes nothing.
    """
    found = find_service(module, unit)
    if found == wanted and not (changed and wanted.active):
        return []
    if not module.check_mode:
        systemctl(module, "daemon-reload")
        if found.enabled != wanted.enabled:
            systemctl(module, "enable" if wanted.enabled else "disable", "--quiet", unit)
        if wanted.active:
            systemctl(module, "reset-failed", unit)
            systemctl(module, "restart", unit)
        else:
            systemctl(module, "stop", unit)
    return [{"before_header": unit, "after_header": unit, "before": _shown(found), "after": _shown(wanted, found.active and wanted.active)}]


def _shown(service: Service, restarted: bool = False) -> str:
    active = "restarted" if restarted else "active" if service.active else "inactive"
    return "{}\n{}\n".format(active, "enabled" if service.enabled else "disabled")


def systemctl(module: AnsibleModule, *arguments: str) -> None:
    """Run systemctl. If the command fails, raises ServiceError with the error message and the end of the unit's log."""
    status, _unused, error = module.run_command(["systemctl", *arguments])
    if status and arguments[0] != "reset-failed":
        raise ServiceError("systemctl {} failed: {}{}".format(" ".join(arguments), error.strip(), log_end(module, arguments[-1])))


def refuse_other_queue(module: AnsibleModule, unit: str, title: str, variable: str) -> None:
    """Raise ServiceError if the daemon of another queue runs on this host, because two queues would give the same GPUs to two jobs."""
    if find_service(module, unit).active:
        raise ServiceError(
            f"{unit} runs on this host, but two queues would give the same GPUs to two jobs. Remove {title} first: {variable}=absent."
        )


def log_end(module: AnsibleModule, unit: str) -> str:
    """Return the last lines of a unit's log below a heading, or an empty string if there are none."""
    _status, output, _error = module.run_command(["journalctl", "--unit", unit, "--lines", "15", "--no-pager", "--output", "cat"])
    return f"\nThe last lines of the log of {unit}:\n{output.strip()}" if output.strip() else ""


def wait_until(condition: Callable[[], bool], timeout: float, interval: float = POLL_SECONDS) -> bool:
    """Wait until the condition is true, but at most `timeout` seconds. Return whether the condition is true."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(interval)
    return True
