# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converges execd, which starts jobs on a node."""

from __future__ import annotations

import os
import socket

from ansible.module_utils.basic import AnsibleModule

from ..._common.managed_files import converge
from ..._common.sge import configuration
from .. import services
from ..queue.module_steps import check_host_name
from ..services import STARTED, STOPPED, ServiceError
from . import commands, hosts


def ensure_present(module: AnsibleModule) -> None:
    """Run execd, wait until qmaster has heard from execd, and exit the module. Raises OSError, ServiceError or ValueError."""
    params = module.params
    node, master = params["nodes"][-1], params["nodes"][0]
    name = socket.gethostname().split(".")[0]
    # A host that has not been configured yet does not have the node's name.
    if not module.check_mode:
        check_host_name(node["name"], name)
    services.refuse_other_queue(module, "slurmd.service", "Slurm", "slurm_state")
    # The comment in the unit restarts execd if the master's address changes, because a running execd keeps the old address.
    files = [hosts.unit(hosts.NODE, comment=f" of {master['name']}, {master['address']}"), hosts.shepherd_file(node["gpus"] or 0)]
    # On the master, the `controller` component writes the other files.
    if node["name"] != master["name"]:
        files = [*hosts.files(params["state_directory"], master["name"]), *files]
    written = converge(module, files)
    restart = any(hosts.unit_path(hosts.NODE) in each["after_header"] for each in written)
    diff = written + services.converge_service(module, hosts.NODE, STARTED, changed=restart)
    if not module.check_mode:
        wait(module, node["name"])
    module.exit_json(changed=bool(diff), diff=diff)


def wait(module: AnsibleModule, name: str) -> None:
    """Wait until qmaster has heard from execd on this host. Raises ServiceError."""
    timeout = module.params["timeout"]
    if not services.wait_until(lambda: configuration.has_registered(commands.try_command(module, "qhost", "-h", name)[1], name), timeout):
        error = commands.try_command(module, "qconf", "-sel")[2].strip()
        why = error or "qmaster has not heard from sge_execd"
        raise ServiceError(f"Timed out after {timeout} s waiting for node {name} to register: {why}.{services.log_end(module, hosts.NODE)}")


def ensure_absent(module: AnsibleModule) -> None:
    """Stop execd, and exit the module. Raises OSError or ServiceError."""
    diff = services.converge_service(module, hosts.NODE, STOPPED) if os.path.exists(hosts.unit_path(hosts.NODE)) else []
    diff += converge(module, hosts.absent(hosts.NODE))
    module.exit_json(changed=bool(diff), diff=diff)
