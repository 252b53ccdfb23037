# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the nodes of a cluster as the controller's inventory describes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._aws.node_names import MASTER, WORKERS
from ..module_utils._job.naming import INSTANCE_ID

# The variables that decide which cluster this run acts on, and their values if the inventory plugin has set them in this run.
DECISIONS = ("deeplearning_cluster", "deeplearning_region", "deeplearning_node_service", "deeplearning_account")
DECIDED: dict[str, str] = {}
VARIABLES = {"number": "deeplearning_number", "hostname": "deeplearning_hostname", "private_ip": "deeplearning_private_ip"}
# The inventory variables of a node that `node_table` contains, by key. Some nodes lack the volumes and the last two.
TABLE = {
    **VARIABLES,
    "instance_id": "deeplearning_instance_id",
    "instance_type": "deeplearning_instance_type",
    "zone": "deeplearning_zone",
    "launched_at": "deeplearning_launched_at",
    "market": "deeplearning_market",
    "volumes": "deeplearning_volumes",
    "address": "ansible_host",
    "user": "ansible_user",
    "public_ip": "deeplearning_public_ip",
    "proxy_command": "deeplearning_proxy_command",
}
# The variable that the inventory plugin sets for all hosts.
INVENTORY_FILE = "deeplearning_inventory_file"


def refuse_failed_inventory(variables: Mapping[str, Any]) -> None:
    """Raise AnsibleActionFail if the inventory plugin failed, or if a variable contradicts the inventory.

    Ansible itself continues without hosts after a failure, as if the cluster had no nodes. The inventory plugin does not see the variables
    of plays, and no templates. In a run with a copy of the inventory, as in AWX, it sees nothing.
    """
    error = variables.get("deeplearning_inventory_error")
    if error:
        raise AnsibleActionFail(f"The inventory cannot be read. {error}")
    of_all = _variables_of_all(variables)
    decided = DECIDED or {name: of_all[name] for name in DECISIONS if INVENTORY_FILE in of_all and name in of_all}
    for name in decided.keys() & variables.keys():
        value = variables[name]
        if "{{" in str(value):
            value = variables["hostvars"][variables["inventory_hostname"]].get(name)
        if problem := other_value(name, value, decided, "a variable of the run", "the inventory"):
            raise AnsibleActionFail(problem)


def other_value(name: str, value: Any, decided: Mapping[str, str], where: str, file: str) -> str:
    """Return the message about a variable whose value differs from what the inventory file has decided, or an empty string."""
    if str(value) == decided[name]:
        return ""
    return (
        f"{name}: '{value}', set by {where}, differs from '{decided[name]}', which {file} specifies. Only the inventory decides which "
        "cluster a run acts on. Remove the variable. For another cluster, write an inventory file of its own, and specify it with -i."
    )


def known_nodes(variables: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the `number`, `hostname` and `private_ip` of each node, or of the nodes in `names`, by inventory name.

    The values are those of `node_table`. With a hand-written inventory, the values come from the variables of the hosts in the same
    cluster.
    """
    table = node_table(variables, names)
    if table or _inventory_hosts(variables):
        return {name: {key: node[key] for key in VARIABLES} for name, node in table.items()}
    return {
        name: {key: host[variable] for key, variable in VARIABLES.items() if variable in host}
        for name, host in _selected(variables["hostvars"], names).items()
        if cluster_of(host) == cluster_of(variables) and VARIABLES["number"] in host
    }


def node_table(variables: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the nodes that the inventory plugin has found, or those in `names`, by inventory name. Without this plugin, return no nodes.

    The values are the variables in the inventory itself. Neither facts nor results of tasks, which nodes could forge, change them. Reading
    them takes a few microseconds for each node, and the evaluation of `hostvars` about a millisecond.
    """
    hosts = _selected(_inventory_hosts(variables), names)
    return {name: _entry(host.vars) for name, host in hosts.items() if TABLE["instance_id"] in host.vars}


def _selected(hosts: Mapping[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    return {name: hosts[name] for name in (hosts if names is None else names) if name in hosts}


def _inventory_hosts(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the hosts of an inventory that the inventory plugin has read, by name, or an empty dict."""
    of_all = _variables_of_all(variables)
    return variables["hostvars"]._inventory.hosts if INVENTORY_FILE in of_all else {}


def _variables_of_all(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the variables that the inventory itself gives to all hosts."""
    hostvars = variables.get("hostvars")
    found: Mapping[str, Any] = hostvars._inventory.groups["all"].vars if hostvars else {}
    return found


def _entry(own: Mapping[str, Any]) -> dict[str, Any]:
    entry = {key: own[variable] for key, variable in TABLE.items() if variable in own}
    is_jump = "proxy_command" not in entry and "ProxyCommand" in own.get("ansible_ssh_args", "")
    return {**entry, "group": MASTER if entry["number"] == 1 else WORKERS, "jump": is_jump}


def cluster_of(variables: Mapping[str, Any]) -> str | None:
    return variables.get("deeplearning_cluster")


def place_of(variables: Mapping[str, Any]) -> dict[str, str]:
    """Return the account, the region and the name of the cluster, as far as they are known."""
    found = {part: str(variables.get(f"deeplearning_{part}") or "") for part in ("account", "region", "cluster")}
    return {part: value for part, value in found.items() if value}


def instance_arguments(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that describe the host's EC2 instance. The task's own arguments take precedence."""
    return {"instance_id": instance_id(variables), "capacity_end": variables.get("deeplearning_capacity_end")}


def instance_id(variables: Mapping[str, Any]) -> str | None:
    known = str(variables.get("deeplearning_instance_id", ""))
    return known if INSTANCE_ID.fullmatch(known) else None
