# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converges slurmd, which starts jobs on a node and gets its configuration from slurmctld."""

from __future__ import annotations

import re
import socket
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..._common.managed_files import THIS, HostFile, converge
from ..._common.slurm import configuration
from ..._common.slurm.configuration import PORT, SlurmNode
from ..._common.worker_metadata.metadata import MASTER_NAME
from ..queue.module_steps import check_host_name
from ..services import STARTED, STOPPED, converge_service, drop_in, find_service, log_end, refuse_other_queue, wait_until
from .commands import NODE, SlurmError, change_state, node_states
from .membership import NodeState

DIGEST = re.compile(r"[0-9a-f]{12}")
# slurmd exits if slurmctld does not respond when slurmd starts, for example because all hosts boot at the same time. slurmd counts the GPUs
# when it starts, and slurmctld drains a node with too few.
DROP_IN = """\
# The role deeplearning.cluster.slurm writes this file. slurmd restarts if these change:
# {settings}
{hardware}
{files}[Unit]
ConditionPathExists=
StartLimitIntervalSec=0
After=nvidia-persistenced.service nvidia-fabricmanager.service

[Service]
{wait}Environment="SLURMD_OPTIONS=--conf-server={master}:{port}"
Restart=on-failure
RestartSec=5
"""
# The driver creates the device files of GPUs while the host boots. After five minutes, slurmd starts without them, and slurmctld shows how
# many are missing.
WAIT = """\
ExecStartPre=/bin/sh -c 'for second in $$(seq 300); do [ -e /dev/nvidia{last} ] && break; sleep 1; done'
TimeoutStartSec=600
"""
FILES = "# files: "


def ensure_present(module: AnsibleModule) -> None:
    """Run slurmd, wait until slurmctld accepts the node, and exit the module. Raises OSError, SlurmError or ValueError."""
    params = module.params
    # A host that has not been configured yet does not have the node's name.
    node = own_node(params["nodes"], None if module.check_mode else socket.gethostname().split(".")[0])
    refuse_other_queue(module, "sge_execd.service", "SGE", "sge_state")
    if not DIGEST.fullmatch(params["settings"]):
        raise ValueError(
            "settings: invalid value {0!r}. Use the value that the module returns for the controller component.".format(params["settings"])
        )
    files = desired_files(node, params)
    before = current_state(module, node.name)
    had_too_little = before is not None and before.had_too_little
    diff = converge(module, files)
    # slurmd reads the hardware only when it starts.
    diff += converge_service(module, NODE, STARTED, changed=bool(diff) or had_too_little)
    state = before if module.check_mode else wait_for_registration(module, node.name, params["timeout"])
    if state and (state.is_leaving or (had_too_little and state.had_too_little)):
        # slurmctld refuses to resume nodes that have not registered yet, so the node cannot be resumed earlier.
        diff += change_state(module, node.name, state, "resume")
    module.exit_json(changed=bool(diff), diff=diff)


def desired_files(node: SlurmNode, params: dict[str, Any]) -> list[HostFile]:
    """Return the desired files of a node: scripts, the settings of slurmd, and scripts that are no longer needed. Raises ValueError."""
    gpus = node.hardware.gpus
    lines = [configuration.node_line(node), *([configuration.gres_line(node)] if gpus else [])]
    scripts = [file for file in configuration.given_files(params["files"]) if file.mode == configuration.SCRIPT_MODE]
    content = DROP_IN.format(
        settings=params["settings"],
        hardware="\n".join("# " + line for line in lines),
        files=FILES + " ".join(file.path for file in scripts) + "\n" if scripts else "",
        wait=WAIT.format(last=gpus - 1) if gpus else "",
        master=MASTER_NAME,
        port=PORT,
    )
    former = [HostFile(path, None) for path in former_files() if path not in {file.path for file in scripts}]
    return [*scripts, HostFile(drop_in(NODE), content), *former]


def former_files() -> list[str]:
    """Return the paths of the scripts that an earlier run has written on this host."""
    lines = (THIS.read(drop_in(NODE)) or "").splitlines()
    return [path for line in lines if line.startswith(FILES) for path in line[len(FILES) :].split()]


def own_node(nodes: list[dict[str, Any]], host_name: str | None) -> SlurmNode:
    """Return the only node in the parameters. The node's name must be `host_name`, unless `host_name` is None. Raises ValueError."""
    if len(nodes) != 1 or not nodes[0]["hardware"]:
        raise ValueError(
            "nodes: the node component needs exactly one entry: this host and its hardware. Use the return value of slurm_info."
        )
    name = nodes[0]["name"]
    if host_name is not None:
        check_host_name(name, host_name)
    return SlurmNode(name, nodes[0]["address"], configuration.hardware_of(nodes[0]["hardware"]))


def current_state(module: AnsibleModule, name: str) -> NodeState | None:
    """Return the state of the node, or None if it has never been configured or slurmctld does not respond."""
    if not find_service(module, NODE).active:
        return None
    try:
        return node_states(module, name).get(name)
    except SlurmError:
        return None


def wait_for_registration(module: AnsibleModule, name: str, timeout: int) -> NodeState:
    """Wait until slurmctld accepts the node, and return its state. Raises SlurmError after `timeout` seconds."""
    last, state = "slurmctld does not know the node", None

    def is_registered() -> bool:
        nonlocal last, state
        try:
            state = node_states(module, name).get(name)
        except SlurmError as error:
            last = str(error)
            return False
        if state:
            last = "its state is " + "+".join(sorted(state.flags)) + (f" ({state.reason})" if state.reason else "")
        return state is not None and state.is_registered

    if not wait_until(is_registered, timeout) or state is None:
        raise SlurmError(f"Timed out after {timeout} s waiting for node {name} to register with slurmctld: {last}.{log_end(module, NODE)}")
    return state


def ensure_absent(module: AnsibleModule) -> None:
    """Stop slurmd, and exit the module. Raises OSError or SlurmError."""
    diff = converge_service(module, NODE, STOPPED) if THIS.exists(drop_in(NODE)) else []
    diff += converge(module, [HostFile(path, None) for path in (*former_files(), drop_in(NODE))])
    module.exit_json(changed=bool(diff), diff=diff)
