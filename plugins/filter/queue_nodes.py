# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Builds the list of a queue's nodes from the inventory's host variables and from the data that the hosts have reported."""

from __future__ import annotations

DOCUMENTATION = r"""
name: queue_nodes
version_added: 0.2.0
short_description: Builds the list of the nodes of Slurm or SGE from host variables
description:
  - Returns the name, the private address and the reported hardware of each host, ordered by host number, and for Slurm its features.
  - The entries of hosts that did not respond have no hardware. The filter ignores implausible hardware and shows a warning.
positional: queue, found
options:
  _input:
    description: Variables of the cluster's hosts, as the inventory plugin P(deeplearning.cluster.nodes#inventory) sets them.
    type: list
    elements: dict
    required: true
  queue:
    description: The queue.
    type: str
    choices: [slurm, sge]
    required: true
  found:
    description: Name of the variable in which each host has registered its result of the queue's C(_info) module.
    type: str
    required: true
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
    msg: "{{ groups['trainers'] | map('extract', hostvars) | deeplearning.cluster.queue_nodes('slurm', 'found') }}"
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - One dictionary per node, for O(deeplearning.cluster.slurm#module:nodes) or O(deeplearning.cluster.sge#module:nodes).
    - In addition to these values, nodes of Slurm have C(hardware), and nodes of SGE have C(cpus) and C(gpus), if they are known.
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
      description: The instance type and the availability zone of a node of Slurm, as far as they are known.
      type: list
      elements: str
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display

from ..module_utils._common.sge import configuration as sge
from ..module_utils._common.slurm import configuration as slurm
from .workers import VARIABLES, workers

# The inventory variables that are features of a node, which jobs of Slurm can request with `--constraint`.
FEATURES = ("deeplearning_instance_type", "deeplearning_zone")
# What the hosts of each queue report.
REPORTED = {"slurm": {"hardware"}, "sge": {"cpus", "gpus"}}


def queue_nodes(hosts: Iterable[Mapping[str, Any]], queue: str, found: str) -> list[dict[str, Any]]:
    """Return `{name, address}` and what the queue needs to know of each host. The values that a host reports are untrusted.

    Raises AnsibleFilterError if a variable is missing, two hosts have the same number, or the queue is another one.
    """
    if queue not in REPORTED:
        raise AnsibleFilterError(f"queue_nodes: {queue!r} is not a queue with nodes. Use {' or '.join(REPORTED)}.")
    hosts = list(hosts)
    nodes = [{"name": worker["name"], "address": worker["address"]} for worker in workers(hosts)]
    variables = {host[VARIABLES["name"]]: host for host in hosts}
    if queue == "slurm":
        nodes = [{**node, "features": [str(value) for name in FEATURES if (value := variables[node["name"]].get(name))]} for node in nodes]
    return [{**node, **_hardware(queue, node["name"], variables[node["name"]].get(found, {}))} for node in nodes]


def _hardware(queue: str, name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hardware in the result of a host, or an empty dictionary if the result contains none, or an implausible one."""
    if not REPORTED[queue] <= result.keys():
        return {}
    hardware: dict[str, Any]
    if queue == "slurm":
        reported = slurm.hardware_of(result["hardware"])
        hardware, plausible = {"hardware": reported._asdict()}, slurm.is_plausible(reported)
    else:
        hardware = {"cpus": result["cpus"], "gpus": result["gpus"]}
        plausible = sge.is_plausible(sge.SgeNode("", **hardware))
    if not plausible:
        Display().warning(f"{name}: the hardware that this host reports is implausible, and is ignored. Check the host.")
    return hardware if plausible else {}


class FilterModule:
    """Filters for the nodes of a queue."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"queue_nodes": queue_nodes}
