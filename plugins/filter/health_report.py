# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes the health of all nodes, and what to do about unhealthy ones."""

from __future__ import annotations

DOCUMENTATION = r"""
name: health_report
version_added: 0.2.0
short_description: Describes the health of nodes
description:
  - Returns the findings of all nodes as text, worst first, and the commands that repair or replace unhealthy nodes.
  - A node is unhealthy if it has a finding with the severity V(restart), V(reboot) or V(replace).
positional: nodes, region, unreachable, exclusions, jobs
options:
  _input:
    description: The return value RV(deeplearning.cluster.node_health#module:findings) of each node, by the node's inventory name.
    type: dict
    required: true
  nodes:
    description: The nodes, as the lookup P(deeplearning.cluster.nodes#lookup) returns them.
    type: dict
    default: {}
  region:
    description: Region of the cluster, for the command that terminates a node.
    type: str
    default: REGION
  unreachable:
    description: Inventory names of the nodes that could not be checked.
    type: list
    elements: str
    default: []
  exclusions:
    description: The return value RV(deeplearning.cluster.node_health#module:exclusions) of each node, by the node's inventory name.
    type: dict
    default: {}
  jobs:
    description: Result of the filter P(deeplearning.cluster.jobs_on#filter) for the nodes that could not be checked, if it is known.
    type: list
    elements: dict
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show the health of this node
  ansible.builtin.debug:
    msg: "{{ ({inventory_hostname: health.findings} | deeplearning.cluster.health_report).text }}"
"""

RETURN = r"""
_value:
  description: The report, and the names of the unhealthy nodes.
  type: dict
  contains:
    text:
      description: One line for each finding and for each exclusion, and a summary.
      type: str
    advice:
      description: What to do about unhealthy nodes, or an empty string if there are none.
      type: str
    unhealthy:
      description: Inventory names of the unhealthy nodes.
      type: list
      elements: str
  sample:
    text: All 3 nodes are healthy.
    advice: ""
    unhealthy: []
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any


def health_report(
    findings: Mapping[str, Sequence[Mapping[str, str]]],
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    region: str = "REGION",
    unreachable: Collection[str] = (),
    exclusions: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    jobs: Sequence[Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """Return the findings as text, advice about unhealthy nodes, and the names of these nodes."""
    # A playbook run that uses any of the collection's filters loads all filters, and importing this module takes longer than all other
    # imports together.
    from ..plugin_utils import health_messages

    found = {name: health_messages.findings_of({"findings": own}) for name, own in findings.items()}
    return {
        "text": "\n".join(
            [
                health_messages.report(found, unreachable, health_messages.jobs_on_nodes(jobs)),
                *health_messages.exclusion_lines(exclusions or {}),
            ]
        ),
        "advice": health_messages.advice(found, nodes or {}, region, unreachable),
        "unhealthy": [name for name, own in found.items() if health_messages.worst(own)],
    }


class FilterModule:
    """Filters for node health."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"health_report": health_report}
