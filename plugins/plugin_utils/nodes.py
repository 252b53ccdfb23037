# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the nodes of a cluster as the controller's inventory describes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instances import MASTER, WORKERS
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import INSTANCE_ID

VARIABLES = {"number": "deeplearning_number", "hostname": "deeplearning_hostname", "private_ip": "deeplearning_private_ip"}
# The inventory variables of a node that `node_table` contains, by key. Some nodes lack the last two.
TABLE = {
    **VARIABLES,
    "instance_id": "deeplearning_instance_id",
    "instance_type": "deeplearning_instance_type",
    "address": "ansible_host",
    "user": "ansible_user",
    "public_ip": "deeplearning_public_ip",
    "proxy_command": "deeplearning_proxy_command",
}
# The variable that the inventory plugin sets for all hosts.
INVENTORY_FILE = "deeplearning_inventory_file"


def refuse_failed_inventory(variables: Mapping[str, Any]) -> None:
    """Raise AnsibleActionFail if the inventory plugin failed. Ansible itself continues without hosts, as if the cluster had no nodes."""
    error = variables.get("deeplearning_inventory_error")
    if error:
        raise AnsibleActionFail(f"The inventory cannot be read. {error}")


def known_nodes(variables: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the `number`, `hostname` and `private_ip` of each node, or of the nodes in `names`, by inventory name.

    The values are those of `node_table`. With a hand-written inventory, the values come from the variables of the hosts in the same
    cluster.
    """
    table = node_table(variables, names)
    if table or _inventory_hosts(variables):
        return {name: {key: node[key] for key in VARIABLES} for name, node in table.items()}
    hostvars, cluster = variables["hostvars"], cluster_of(variables)
    hosts = {name: hostvars[name] for name in (hostvars if names is None else names) if name in hostvars}
    return {
        name: {key: host[variable] for key, variable in VARIABLES.items() if variable in host}
        for name, host in hosts.items()
        if cluster_of(host) == cluster and VARIABLES["number"] in host
    }


def node_table(variables: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the nodes that the inventory plugin has found, or those in `names`, by inventory name. Without this plugin, return no nodes.

    The values are the variables in the inventory itself. Neither facts nor results of tasks, which nodes could forge, change them. Reading
    them takes a few microseconds for each node, and the evaluation of `hostvars` about a millisecond.
    """
    hosts = _inventory_hosts(variables)
    found = {name: hosts[name].vars for name in (hosts if names is None else names) if name in hosts}
    return {name: _entry(own) for name, own in found.items() if TABLE["instance_id"] in own}


def _inventory_hosts(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the hosts of an inventory that the inventory plugin has read, by name, or an empty dict."""
    hostvars = variables.get("hostvars")
    if not hostvars:
        return {}
    inventory = hostvars._inventory
    return inventory.hosts if INVENTORY_FILE in inventory.groups["all"].vars else {}


def _entry(own: Mapping[str, Any]) -> dict[str, Any]:
    entry = {key: own[variable] for key, variable in TABLE.items() if variable in own}
    is_jump = "proxy_command" not in entry and "ProxyCommand" in own.get("ansible_ssh_common_args", "")
    return {**entry, "group": MASTER if entry["number"] == 1 else WORKERS, "jump": is_jump}


def cluster_of(variables: Mapping[str, Any]) -> str | None:
    """Return the cluster that a host belongs to. Inventories written by hand may use the former variable `deeplearning_cluster_name`."""
    return variables.get("deeplearning_cluster", variables.get("deeplearning_cluster_name"))


def instance_arguments(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that describe the host's EC2 instance. The task's own arguments take precedence."""
    return {"instance_id": instance_id(variables), "capacity_end": variables.get("deeplearning_capacity_end")}


def instance_id(variables: Mapping[str, Any]) -> str | None:
    """Return the host's instance ID, or None if the host is not an EC2 instance."""
    known = str(variables.get("deeplearning_instance_id", ""))
    return known if INSTANCE_ID.fullmatch(known) else None
