# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the nodes of a cluster as the controller's inventory describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import INSTANCE_ID

VARIABLES = {"number": "deeplearning_number", "hostname": "deeplearning_hostname", "private_ip": "deeplearning_private_ip"}


def refuse_failed_inventory(variables: Mapping[str, Any]) -> None:
    """Raise AnsibleActionFail if the inventory plugin failed. Ansible itself continues without hosts, as if the cluster had no nodes."""
    error = variables.get("deeplearning_inventory_error")
    if error:
        raise AnsibleActionFail(f"The inventory cannot be read. {error}")


def known_nodes(variables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the `number`, `hostname` and `private_ip` of each node, by inventory name.

    The values come from the variable `deeplearning_nodes`. With a hand-written inventory, the values come from the variables of the hosts
    in the same cluster.
    """
    hostvars, table = variables["hostvars"], node_table(variables)
    if table:
        return {name: {key: node[key] for key in VARIABLES} for name, node in table.items()}
    cluster = cluster_of(variables)
    return {
        name: {key: host[variable] for key, variable in VARIABLES.items() if variable in host}
        for name, host in hostvars.items()
        if cluster_of(host) == cluster and VARIABLES["number"] in host
    }


def node_table(variables: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the variable `deeplearning_nodes`, which maps inventory names to nodes, or an empty dict with a hand-written inventory."""
    hostvars = variables.get("hostvars", {})
    table = hostvars["localhost"].get("deeplearning_nodes") if "localhost" in hostvars else None
    return table or {}


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
