# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converges slurmctld: its configuration, the directory of its queue, its service, and the nodes that join and leave the cluster."""

from __future__ import annotations

import os
import shutil
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..._common.managed_files import THIS, HostFile, converge
from ..._common.slurm import configuration
from ..._common.slurm.configuration import SlurmNode, SlurmSettings
from ..queue import state_directory
from ..queue.module_steps import check_controller, check_programs, check_queue_is_empty, warn_of_missing_hardware
from ..services import STARTED, STOPPED, converge_service, drop_in, find_service
from .commands import CONTROLLER, SlurmError, ask, change_state, node_states, update_node, wait_for_controller
from .membership import REASON, NodeState, decide, parse_jobs

USER = "slurm"
SLURM, GRES, CGROUP = (configuration.path_of(name) for name in ("slurm.conf", "gres.conf", "cgroup.conf"))
DROP_IN = """\
# The role deeplearning.cluster.slurm writes this file.
[Unit]
RequiresMountsFor={path}
StartLimitIntervalSec=0

[Service]
Restart=on-failure
RestartSec=5
"""


def ensure_present(module: AnsibleModule) -> None:
    """Run slurmctld for the given nodes, and exit the module. Raises OSError, SlurmError, StateDirectoryError or ValueError."""
    params = module.params
    settings = settings_of(params)
    before = THIS.read(SLURM) or ""
    described = configuration.parse_nodes(before)
    states = current_states(module)
    desired = members(module, params["nodes"], described)
    decision = decide(described, [node["name"] for node in params["nodes"]], states)
    nodes = desired + [described[name] for name in decision.keep]
    files = files_of(settings, nodes)
    check_programs(settings.parameters, settings.files)
    former = [path for path in map(configuration.path_of, configuration.parse_files(before)) if path not in {file.path for file in files}]
    files += [HostFile(path, None) for path in former]
    diff = state_directory.difference(settings.state_directory, USER, params["user"], create=not module.check_mode)
    if not module.check_mode:
        for name in decision.down:
            update_node(module, name, "down", REASON)
    diff += converge_daemon(module, files)
    for name in decision.drain:
        diff += change_state(module, name, states[name], "drain", REASON)
    module.exit_json(changed=bool(diff), diff=diff, settings=configuration.settings_digest(settings), leaving=decision.keep)


def converge_daemon(module: AnsibleModule, files: list[HostFile]) -> list[dict[str, str]]:
    """Write the files, run slurmctld with them, and return the diffs.

    If slurmctld does not start with the new files, the old ones are restored. Raises OSError or SlurmError.
    """
    before = [file._replace(content=THIS.read(file.path)) for file in files]
    written = converge(module, files)
    diff = written + converge_service(module, CONTROLLER, STARTED, changed=bool(written))
    if module.check_mode:
        return diff
    try:
        wait_for_controller(module, module.params["timeout"])
    except SlurmError as error:
        if not written:
            raise
        converge(module, before)
        is_new = next(file.content for file in before if file.path == SLURM) is None
        converge_service(module, CONTROLLER, STOPPED if is_new else STARTED, changed=True)
        raise SlurmError(f"slurmctld does not start with its new configuration, so the old one was restored. {error}") from None
    if written:
        ask(module, "scontrol", "reconfigure")  # slurmctld then sends the new files to all nodes
    return diff


def settings_of(params: dict[str, Any]) -> SlurmSettings:
    """Return the settings in the module's parameters. The first node runs slurmctld. Raises ValueError."""
    check_controller(params)
    return SlurmSettings(
        params["cluster"],
        params["nodes"][0]["name"],
        params["state_directory"],
        params["partition"],
        tuple(params["groups"]),
        params["cgroups"],
        {name: str(value) for name, value in params["parameters"].items()},
        params["files"],
    )


def members(module: AnsibleModule, nodes: list[dict[str, Any]], described: dict[str, SlurmNode]) -> list[SlurmNode]:
    """Return the nodes whose hardware is known, either from the parameters or, if it is missing there, from the current configuration
    files.
    """
    found = []
    for node in nodes:
        name, features = node["name"], tuple(node["features"])
        known = described[name].hardware if name in described else None
        hardware = configuration.hardware_of(node["hardware"]) if node["hardware"] else known
        if hardware is None:
            warn_of_missing_hardware(module, name)
            continue
        if known and hardware.cpus == known.cpus and hardware.gpus < known.gpus:
            # A host on which a GPU has failed would otherwise run jobs without GPUs. Slurm drains the node instead.
            module.warn(f"{name} has {hardware.gpus} GPUs instead of {known.gpus}, so Slurm starts no jobs on it. Check its GPUs.")
            hardware = hardware._replace(gpus=known.gpus, gpu_type=known.gpu_type)
        found.append(SlurmNode(name, node["address"], hardware, features))
    return found


def files_of(settings: SlurmSettings, nodes: list[SlurmNode]) -> list[HostFile]:
    """Return the desired files, slurm.conf after the files that it needs. Raises ValueError."""
    slurm = configuration.slurm_conf(settings, nodes)
    own = {GRES: configuration.gres_conf(nodes), CGROUP: configuration.cgroup_conf(settings)}
    given = configuration.given_files(settings.files)
    return [
        *given,
        *(HostFile(path, content) for path, content in own.items() if path not in {file.path for file in given}),
        HostFile(SLURM, slurm),
        HostFile(drop_in(CONTROLLER), DROP_IN.format(path=settings.state_directory)),
    ]


def current_states(module: AnsibleModule) -> dict[str, NodeState]:
    """Return the states of the nodes, or an empty dictionary if slurmctld is not running."""
    if not os.path.exists(SLURM) or not find_service(module, CONTROLLER).active:
        return {}
    return node_states(module)


def ensure_absent(module: AnsibleModule) -> None:
    """Stop slurmctld, delete its files and its queue (which must be empty), and exit the module.

    Raises OSError, SlurmError, StateDirectoryError or ValueError.
    """
    path, user = module.params["state_directory"], module.params["user"]
    if os.path.exists(SLURM) and find_service(module, CONTROLLER).active:
        check_queue_is_empty(parse_jobs(ask(module, "squeue", "--noheader", "--format=%F")), "scancel")
    diff = converge_service(module, CONTROLLER, STOPPED) if os.path.exists(drop_in(CONTROLLER)) else []
    given = [configuration.path_of(name) for name in configuration.parse_files(THIS.read(SLURM) or "")]
    diff += converge(module, [HostFile(file, None) for file in dict.fromkeys((*given, GRES, CGROUP, SLURM, drop_in(CONTROLLER)))])
    if shutil.which("slurmctld", path="/usr/sbin"):
        diff += state_directory.remove(path, USER, user, delete=not module.check_mode)
    module.exit_json(changed=bool(diff), diff=diff)
