# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Builds the list of SGE's nodes from the inventory's host variables and from the data that the hosts have reported."""

from __future__ import annotations

DOCUMENTATION = r"""
name: sge_nodes
version_added: 0.2.0
short_description: Builds the list of SGE nodes from host variables
description:
  - Returns the name, the private address, and the reported CPU and GPU counts of each host, ordered by host number.
  - The entries of hosts that did not respond have no counts. The filter ignores implausible counts and shows a warning.
extends_documentation_fragment: deeplearning.cluster.queue.nodes
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Read the hardware of the hosts
  deeplearning.cluster.sge_info:
  become: true
  register: found

- name: Show the nodes
  ansible.builtin.debug:
    msg: "{{ groups['trainers'] | map('extract', hostvars) | deeplearning.cluster.sge_nodes('found') }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: One dictionary per node, for O(deeplearning.cluster.sge#module:nodes).
  type: list
  elements: dict
  contains:
    name:
      description: Host name of the node.
      type: str
    address:
      description: Private address of the node.
      type: str
    cpus:
      description: Number of CPUs. Absent if the number is unknown.
      type: int
    gpus:
      description: Number of GPUs. Absent if the number is unknown.
      type: int
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..module_utils._common.sge.configuration import SgeNode, is_plausible
from ..plugin_utils.queue_nodes import with_hardware
from .workers import VARIABLES, workers


def sge_nodes(hosts: Iterable[Mapping[str, Any]], found: str) -> list[dict[str, Any]]:
    """Return `{name, address, cpus, gpus}` for each host.

    Raises AnsibleFilterError if a variable is missing or two hosts have the same number.
    """
    hosts = list(hosts)
    return with_hardware(workers(hosts), {host[VARIABLES["name"]]: host.get(found, {}) for host in hosts}, _hardware)


def _hardware(result: Mapping[str, Any]) -> dict[str, Any] | None:
    if "cpus" not in result or "gpus" not in result:
        return {}
    return {"cpus": result["cpus"], "gpus": result["gpus"]} if is_plausible(SgeNode("", result["cpus"], result["gpus"])) else None


class FilterModule:
    """Filters for SGE."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"sge_nodes": sge_nodes}
