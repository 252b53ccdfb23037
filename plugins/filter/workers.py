# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Builds the list of workers from the inventory's host variables."""

from __future__ import annotations

DOCUMENTATION = r"""
name: workers
version_added: 0.1.0
short_description: Builds the list of workers from host variables
description:
  - Returns the number, name and private address of each host, ordered by host number.
options:
  _input:
    description: Variables of the cluster's hosts, as the inventory plugin P(deeplearning.cluster.nodes#inventory) sets them.
    type: list
    elements: dict
    required: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show the workers
  ansible.builtin.debug:
    msg: "{{ groups['trainers'] | map('extract', hostvars) | deeplearning.cluster.workers }}"
"""

RETURN = r"""
_value:
  description: One dictionary per worker.
  type: list
  elements: dict
  sample:
    - number: 1
      name: demo-master
      address: 10.0.0.4
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._common.worker_metadata.metadata import ordered

# The names of the values in the variables of hosts, and in the nodes that the lookup `nodes` returns.
VARIABLES = {"number": "deeplearning_number", "name": "deeplearning_hostname", "address": "deeplearning_private_ip"}
KEYS = {"number": "number", "name": "hostname", "address": "private_ip"}


def workers(hosts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return `{number, name, address}` for each host.

    Raises AnsibleFilterError if a variable is missing or two hosts have the same number.
    """
    try:
        return ordered({field: host[_name_in(host, field)] for field in VARIABLES} for host in hosts)
    except KeyError as error:
        raise AnsibleFilterError(
            f"{error.args[0]}: the variable is not set for a host. Use the deeplearning.cluster.nodes inventory, or set the variable."
        ) from error
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


def _name_in(host: Mapping[str, Any], field: str) -> str:
    return KEYS[field] if VARIABLES[field] not in host and KEYS[field] in host else VARIABLES[field]


class FilterModule:
    """Filters for the members of a cluster."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"workers": workers}
