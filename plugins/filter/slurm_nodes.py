# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Builds the list of Slurm nodes from the inventory's host variables and from the data that the hosts have reported."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_nodes
version_added: 0.2.0
short_description: Builds the list of Slurm nodes from host variables
description:
  - Returns the name, the private address, the features, and the reported hardware of each host, ordered by host number.
  - The entries of hosts that did not respond have no hardware. The filter ignores implausible hardware and shows a warning.
extends_documentation_fragment: deeplearning.cluster.queue.nodes
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Read the hardware of the hosts
  deeplearning.cluster.slurm_info:
  become: true
  register: found

- name: Show the nodes
  ansible.builtin.debug:
    msg: "{{ groups['trainers'] | map('extract', hostvars) | deeplearning.cluster.slurm_nodes('found') }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: One dictionary per node, for O(deeplearning.cluster.slurm#module:nodes).
  type: list
  elements: dict
  contains:
    name:
      description: Host name of the node.
      type: str
    address:
      description: Private address of the node.
      type: str
    features:
      description: The instance type and the availability zone of the node, as far as they are known.
      type: list
      elements: str
    hardware:
      description: Hardware of the node. Absent if the hardware is unknown.
      type: dict
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..module_utils._common.slurm.configuration import hardware_of, is_plausible
from ..plugin_utils.queue_nodes import with_hardware
from ..plugin_utils.slurm_features import features_of
from .workers import VARIABLES, workers


def slurm_nodes(hosts: Iterable[Mapping[str, Any]], found: str) -> list[dict[str, Any]]:
    """Return `{name, address, features, hardware}` for each host.

    Raises AnsibleFilterError if a variable is missing or two hosts have the same number.
    """
    hosts = list(hosts)
    nodes = with_hardware(workers(hosts), {host[VARIABLES["name"]]: host.get(found, {}) for host in hosts}, _hardware)
    features = {host[VARIABLES["name"]]: features_of(host) for host in hosts}
    return [{**node, "features": features[node["name"]]} for node in nodes]


def _hardware(result: Mapping[str, Any]) -> dict[str, Any] | None:
    if "hardware" not in result:
        return {}
    hardware = hardware_of(result["hardware"])
    return {"hardware": hardware._asdict()} if is_plausible(hardware) else None


class FilterModule:
    """Filters for Slurm."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"slurm_nodes": slurm_nodes}
