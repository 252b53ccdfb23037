# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes planned changes to AWS resources, one line for each change."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plan_lines
version_added: 0.2.0
short_description: Describes planned changes to AWS resources
description:
  - Returns a line for each change that a provisioning module such as M(deeplearning.cluster.cluster) reports, in the same words as the
    callback P(deeplearning.cluster.concise#callback).
options:
  _input:
    description: The return value RV(deeplearning.cluster.cluster#module:changes).
    type: list
    elements: dict
    required: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show the changes
  ansible.builtin.debug:
    msg: "{{ provision_result.changes | deeplearning.cluster.plan_lines }}"
"""

RETURN = r"""
_value:
  description: The lines, in the order of the changes.
  type: list
  elements: str
  sample: ["- NAT gateway main", "~ auto scaling group workers: size 2 -> 3"]
"""

from collections.abc import Iterable
from typing import Any

from ..plugin_utils._output import changes


def plan_lines(made: Iterable[changes.PlannedChange]) -> list[str]:
    """Return a line for each change."""
    return [line for _action, line in changes.plan_lines(made, properties=False)]


class FilterModule:
    """Filters for changes to resources."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"plan_lines": plan_lines}
