# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the command that runs a playbook of this collection for the same cluster as this run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: playbook_command
version_added: 0.2.0
short_description: Returns the command that runs a playbook of this collection
description:
  - Returns the command that runs a playbook of this collection for the inventory and the cluster of this run.
  - The command repeats the options C(-i) and C(-e @FILE) of this run. It also repeats the variables C(deeplearning_cluster) and
    C(deeplearning_region) if C(-e) sets them. It does not repeat any other variables.
options:
  _input:
    description: Name of the playbook without the name of the collection.
    type: str
    required: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show how to delete the cluster
  ansible.builtin.debug:
    msg: "To delete the cluster, run {{ 'destroy' | deeplearning.cluster.playbook_command }}."
"""

RETURN = r"""
_value:
  description: The command.
  type: str
  sample: ansible-playbook -i inventory/nodes.yml deeplearning.cluster.destroy
"""

from typing import Any

from ansible_collections.deeplearning.cluster.plugins.plugin_utils.commands import playbook_command


class FilterModule:
    """Filters for messages."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"playbook_command": playbook_command}
