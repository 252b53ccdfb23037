# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the commands that query and control slurmctld."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

from .. import services
from ..services import log_end, wait_until
from .membership import NodeState, parse_states

CONTROLLER, NODE = "slurmctld.service", "slurmd.service"
# Time limit of a command in seconds. A command retries while slurmctld does not respond.
COMMAND_TIMEOUT = "60"

# A command or service of Slurm has failed.
SlurmError = services.ServiceError


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
    """Change the state of a node, except in check mode, and return the diff. Raises SlurmError."""
    if not module.check_mode:
        update_node(module, name, state, reason)
    header, before = f"node {name}", "+".join(sorted(found.flags))
    return [{"before_header": header, "after_header": header, "before": f"{before}\n", "after": f"{state}\n"}]


def wait_for_controller(module: AnsibleModule, timeout: int) -> None:
    """Wait until slurmctld responds. After `timeout` seconds, raises SlurmError with the end of slurmctld's log."""
    if not wait_until(lambda: " is UP" in _run(module, "scontrol", "ping")[1], timeout):
        raise SlurmError(f"Timed out after {timeout} s waiting for slurmctld to respond.{log_end(module, CONTROLLER)}")
