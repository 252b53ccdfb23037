# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converges the systemd services of Slurm, and runs the commands that query and control slurmctld."""

from __future__ import annotations

import os
import time
from typing import Callable, NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.membership import NodeState, parse_states

CONTROLLER, NODE, MUNGE = "slurmctld.service", "slurmd.service", "munge.service"
DROP_INS = "/etc/systemd/system"
#: Time limit of a command in seconds. A command retries while slurmctld does not respond.
COMMAND_TIMEOUT = "60"
POLL_SECONDS = 1.0


class SlurmError(Exception):
    """A Slurm command or service has failed. The message states the reason and the remedy."""


class Service(NamedTuple):
    """Whether a unit is active, and whether it starts at boot."""

    active: bool
    enabled: bool


STOPPED, STARTED = Service(False, False), Service(True, True)


def drop_in(unit: str) -> str:
    """Return the path of this collection's settings for a unit."""
    return os.path.join(DROP_INS, f"{unit}.d", "deeplearning.conf")


def find_service(module: AnsibleModule, unit: str) -> Service:
    """Return the state of a unit."""
    return Service(*(module.run_command(["systemctl", word, "--quiet", unit])[0] == 0 for word in ("is-active", "is-enabled")))


def converge_service(module: AnsibleModule, unit: str, wanted: Service, changed: bool = False) -> list[dict[str, str]]:
    """Start and enable a unit, or stop and disable it, and return the differences. If `changed` is true, a running unit is restarted.

    Raises SlurmError. Check mode changes nothing.
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
    """Run systemctl. If the command fails, raises SlurmError with the error message and the end of the unit's log."""
    status, _unused, error = module.run_command(["systemctl", *arguments])
    if status and arguments[0] != "reset-failed":
        raise SlurmError("systemctl {} failed: {}{}".format(" ".join(arguments), error.strip(), log_end(module, arguments[-1])))


def log_end(module: AnsibleModule, unit: str) -> str:
    """Return the last lines of a unit's log below a heading, or an empty string if there are none."""
    _status, output, _error = module.run_command(["journalctl", "--unit", unit, "--lines", "15", "--no-pager", "--output", "cat"])
    return f"\nThe last lines of the log of {unit}:\n{output.strip()}" if output.strip() else ""


def ask(module: AnsibleModule, *command: str) -> str:
    """Return the output of a Slurm command. Raises SlurmError if the command fails."""
    status, output, error = _run(module, *command)
    if status:
        raise SlurmError("{} failed: {}. Check slurmctld on the master.".format(" ".join(command), (error or output).strip().rstrip(".")))
    return output


def _run(module: AnsibleModule, *command: str) -> tuple[int, str, str]:
    found: tuple[int, str, str] = module.run_command(["timeout", COMMAND_TIMEOUT, *command])
    return found


def node_states(module: AnsibleModule, *names: str) -> dict[str, NodeState]:
    """Return the states of the named nodes, or of all nodes if no names are given, keyed by name. Raises SlurmError."""
    return parse_states(ask(module, "scontrol", "--oneliner", "show", "nodes", *([",".join(names)] if names else [])))


def update_node(module: AnsibleModule, name: str, state: str, reason: str = "") -> None:
    """Change the state of a node. Raises SlurmError."""
    ask(module, "scontrol", "update", f"NodeName={name}", f"State={state}", *([f"Reason={reason}"] if reason else []))


def change_state(module: AnsibleModule, name: str, found: NodeState, state: str, reason: str = "") -> list[dict[str, str]]:
    """Change the state of a node, except in check mode, and return the difference. Raises SlurmError."""
    if not module.check_mode:
        update_node(module, name, state, reason)
    header, before = f"node {name}", "+".join(sorted(found.flags))
    return [{"before_header": header, "after_header": header, "before": f"{before}\n", "after": f"{state}\n"}]


def wait_for_controller(module: AnsibleModule, timeout: int) -> None:
    """Wait until slurmctld responds. After `timeout` seconds, raises SlurmError with the end of slurmctld's log."""
    if not wait_until(lambda: " is UP" in _run(module, "scontrol", "ping")[1], timeout):
        raise SlurmError(f"Timed out after {timeout} s waiting for slurmctld to respond.{log_end(module, CONTROLLER)}")


def wait_until(condition: Callable[[], bool], timeout: int) -> bool:
    """Wait until the condition is true, but at most `timeout` seconds. Return whether the condition is true."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True
