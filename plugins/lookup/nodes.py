# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the nodes that the inventory plugin of the same name has found."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nodes
version_added: 0.1.0
short_description: Returns the nodes of a training cluster
description:
  - Returns a dictionary of the nodes that the inventory plugin P(deeplearning.cluster.nodes#inventory) has found, keyed by inventory name.
    With a hand-written inventory, the dictionary is empty.
  - The values come from the inventory itself. No node can change them, because neither facts nor results of tasks do.
options:
  _terms:
    description: Inventory names of the nodes to return. By default, the lookup returns all nodes.
    type: list
    elements: str
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show the instance IDs of all nodes
  ansible.builtin.debug:
    msg: "{{ lookup('deeplearning.cluster.nodes').values() | map(attribute='instance_id') }}"

- name: Show the instance ID of this node
  ansible.builtin.debug:
    msg: "{{ lookup('deeplearning.cluster.nodes', inventory_hostname)[inventory_hostname].instance_id }}"
"""

RETURN = r"""
_raw:
  description:
    - A list that contains one dictionary, which maps inventory names to nodes.
    - Each node has C(number), C(hostname), C(group), C(instance_id), C(instance_type), C(market), C(zone), C(launched_at), C(private_ip),
      C(user), C(address) and C(jump). SSH connects to C(address). C(jump) is true if SSH connects through the master. Nodes with a public
      address also have C(public_ip). Nodes that SSH reaches through Session Manager also have C(proxy_command).
  type: list
  elements: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.plugins.lookup import LookupBase

from ..plugin_utils.inventory_nodes import node_table


class LookupModule(LookupBase):
    def run(self, terms: Sequence[str], variables: Mapping[str, Any] | None = None, **_kwargs: Any) -> list[dict[str, Any]]:
        return [node_table(variables or {}, terms or None)]
