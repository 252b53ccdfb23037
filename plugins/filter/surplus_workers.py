# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Selects the workers to remove when the number of workers decreases."""

from __future__ import annotations

DOCUMENTATION = r"""
name: surplus_workers
version_added: 0.1.0
short_description: Selects the workers to remove when the number of workers decreases
description:
  - Selects the workers with the highest numbers. The role P(deeplearning.cluster.provision#role) removes these workers first.
positional: count
options:
  _input:
    description: Variables of the cluster's workers, as the inventory plugin P(deeplearning.cluster.nodes#inventory) sets them.
    type: list
    elements: dict
    required: true
  count:
    description: The desired number of workers, excluding the master. If it is V(none), the result is empty.
    type: int
    required: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show the workers to remove so that only one worker and the master remain
  ansible.builtin.debug:
    msg: "{{ groups['workers'] | map('extract', hostvars) | deeplearning.cluster.surplus_workers(1) }}"
"""

RETURN = r"""
_value:
  description: Host names of the workers, ordered by worker number.
  type: list
  elements: str
  sample: [demo-worker3, demo-worker4]
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError


def surplus_workers(hosts: Iterable[Mapping[str, Any]], count: int | str | None) -> list[str]:
    """Return the names of the workers to remove so that `count` workers remain.

    Raises AnsibleFilterError if a variable is missing or `count` is not a number.
    """
    if count is None:
        return []
    try:
        names = {int(host["deeplearning_number"]): str(host["deeplearning_hostname"]) for host in hosts}
    except KeyError as error:
        raise AnsibleFilterError(
            f"{error.args[0]}: the variable is not set for a host. Use the deeplearning.cluster.nodes inventory, or set the variable."
        ) from error
    try:
        wanted = max(int(count), 0)
    except ValueError as error:
        raise AnsibleFilterError(f"count: {count!r} is not a whole number. Specify the desired number of workers.") from error
    return [names[number] for number in sorted(names)[wanted:]]


class FilterModule:
    """Filters for resizing a cluster."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"surplus_workers": surplus_workers}
