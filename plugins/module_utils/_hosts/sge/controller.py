# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converges qmaster: its files, the directory of its queue, its service, its configuration, and the nodes that join and leave."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..._common.managed_files import converge
from ..._common.sge import configuration
from ..._common.sge.configuration import SgeNode, SgeSettings
from .. import services
from ..queue import module_steps, state_directory
from ..services import STARTED, STOPPED, ServiceError
from . import commands, hosts

# Creates an empty queue, as the package's script init_cluster does for another kind of storage.
CREATE = """\
set -e
umask 077
rm -rf "$1/common" "$1/spool"
mkdir -p "$1/common" "$1/spool/job_scripts"
cd /usr/lib/gridengine
./spoolinit classic libspoolc "$1/common;$1/spool" init
./spooldefaults configuration /usr/share/gridengine/default-configuration
./spooldefaults complexes /usr/share/gridengine/util/resources/centry
./spooldefaults usersets /usr/share/gridengine/util/resources/usersets
./spooldefaults managers root {user}
./spooldefaults adminhosts "$2"
touch "$1/created"
"""


def ensure_present(module: AnsibleModule) -> None:
    """Run qmaster for the given nodes, and exit the module. Raises OSError, ServiceError, StateDirectoryError or ValueError."""
    params = module.params
    settings = settings_of(params)
    master = params["nodes"][0]["name"]
    up = commands.is_up(module) if shutil.which("qconf") and os.path.exists(hosts.unit_path(hosts.CONTROLLER)) else False
    nodes = members(module, params["nodes"], up)
    configuration.check(settings, nodes)
    module_steps.check_programs(settings.parameters)
    names = [node["name"] for node in params["nodes"]]
    diff = state_directory.difference(settings.state_directory, hosts.USER, params["user"], create=not module.check_mode)
    written = converge(module, [*hosts.files(settings.state_directory, master), hosts.unit(hosts.CONTROLLER, settings.state_directory)])
    create(module, settings.state_directory, master)
    diff += written + services.converge_service(module, hosts.CONTROLLER, STARTED, changed=bool(written))
    if not module.check_mode:
        wait(module)
        up = True
    busy = commands.jobs_by_host(module) if up else {}
    leaving = sorted(name for name in busy if name not in names)
    diff += commands.converge_resources(module, up)
    diff += commands.converge(module, configuration.items(settings, nodes, [node.name for node in nodes]), up)
    diff += trusted_hosts(module, names, up)
    diff += remove(module, [name for name in commands.nodes(module) if name not in [*names, *leaving]] if up else [])
    module.exit_json(changed=bool(diff), diff=diff, leaving=leaving)


def settings_of(params: dict[str, Any]) -> SgeSettings:
    """Return the settings in the module's parameters. Raises ValueError."""
    module_steps.check_controller(params)
    parameters = {name: str(value) for name, value in params["parameters"].items()}
    return SgeSettings(params["state_directory"], params["queue"], tuple(params["groups"]), parameters)


def members(module: AnsibleModule, described: list[dict[str, Any]], up: bool) -> list[SgeNode]:
    """Return the nodes whose hardware is known, either from the parameters or, if it is missing there, from the current configuration."""
    found = []
    for node in described:
        name = node["name"]
        if node["cpus"]:
            found.append(SgeNode(name, node["cpus"], node["gpus"] or 0))
            continue
        current = commands.current(module, configuration.node_item(SgeNode(name, 0, 0))) if up else None
        values = dict(re.findall(r"(\w+)=(\d+)", (current or {}).get("complex_values", "")))
        if "slots" in values:
            found.append(SgeNode(name, int(values["slots"]), int(values.get("gpu", 0))))
        else:
            module_steps.warn_of_missing_hardware(module, name)
    return found


def create(module: AnsibleModule, path: str, master: str) -> None:
    """Create an empty queue unless the directory contains a queue. Raises ServiceError."""
    if module.check_mode or os.path.exists(os.path.join(path, "created")):
        return
    environment = {"SGE_ROOT": configuration.ROOT_DIRECTORY, "SGE_CELL": configuration.CELL}
    environment["SGE_QMASTER_PORT"], environment["SGE_EXECD_PORT"] = str(configuration.MASTER_PORT), str(configuration.EXEC_PORT)
    script = CREATE.format(user=hosts.USER)
    command = ["runuser", "--user", hosts.USER, "--", "/bin/sh", "-c", script, "sh", path, master]
    status, output, error = module.run_command(command, environ_update=environment, cwd="/")
    if status:
        raise ServiceError(f"the queue in {path} could not be created: {(error or output).strip()}. Remove the directory and try again.")


def wait(module: AnsibleModule) -> None:
    """Wait until qmaster answers. Raises ServiceError."""
    timeout = module.params["timeout"]
    if not services.wait_until(lambda: commands.is_up(module), timeout):
        raise ServiceError(f"Timed out after {timeout} s waiting for sge_qmaster to respond.{services.log_end(module, hosts.CONTROLLER)}")


def trusted_hosts(module: AnsibleModule, names: list[str], up: bool) -> list[dict[str, str]]:
    """Allow all nodes to submit jobs, and allow root to use all commands on these nodes. Return the diffs."""
    differences = []
    for title, show, add in (("submit hosts", "-ss", "-as"), ("administrative hosts", "-sh", "-ah")):
        status, output, _error = commands.try_command(module, "qconf", show) if up else (1, "", "")
        missing = [name for name in names if status or name not in output.split()]
        if missing and not module.check_mode:
            commands.ask(module, "qconf", add, ",".join(missing))
        differences += [{"before_header": title, "after_header": title, "before": "", "after": f"{name}\n"} for name in missing]
    return differences


def remove(module: AnsibleModule, names: list[str]) -> list[dict[str, str]]:
    """Remove nodes without jobs, and return the diffs. Raises ServiceError."""
    for name in [] if module.check_mode else names:
        commands.try_command(module, "qconf", "-ds", name)
        commands.try_command(module, "qconf", "-dh", name)
        commands.ask(module, "qconf", "-de", name)
    return [{"before_header": "nodes", "after_header": "nodes", "before": f"{name}\n", "after": ""} for name in names]


def ensure_absent(module: AnsibleModule) -> None:
    """Stop qmaster, delete its queue (which must be empty), and exit the module. Raises OSError, ServiceError or StateDirectoryError."""
    path, user = module.params["state_directory"], module.params["user"]
    installed = os.path.exists(hosts.unit_path(hosts.CONTROLLER))
    if installed and services.find_service(module, hosts.CONTROLLER).active:
        jobs = re.findall(r"^\s*(\d+)\s", commands.ask(module, "qstat", "-u", "*"), re.MULTILINE)
        module_steps.check_queue_is_empty(jobs, "qdel")
    diff = services.converge_service(module, hosts.CONTROLLER, STOPPED) if installed else []
    diff += converge(module, hosts.absent(hosts.CONTROLLER))
    if shutil.which("qconf"):
        diff += state_directory.remove(path, hosts.USER, user, delete=not module.check_mode)
    module.exit_json(changed=bool(diff), diff=diff)
