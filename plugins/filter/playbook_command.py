# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the command that runs a playbook of this collection for the same cluster as the current playbook run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: playbook_command
version_added: 0.2.0
short_description: Returns the command that runs a playbook of this collection
description:
  - Returns the command that runs a playbook of this collection for the same inventory and cluster as the current playbook run.
  - The command repeats the options C(-i) and C(-e @FILE) of this run. The command also repeats the variables C(deeplearning_cluster) and
    C(deeplearning_region) if C(-e) sets them. The command repeats all other variables only if O(variables) is set.
positional: variables
options:
  _input:
    description: Name of the playbook without the name of the collection.
    type: str
    required: true
  variables:
    description:
      - Variables that the command sets. If this option is set, the command also repeats all other variables that C(-e) sets for this run.
      - V(AS_BEFORE) replaces the values of variables that do not belong to this collection, and of variables and keys that may be
        secret, such as C(training_job_secrets).
    type: dict
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show how to delete the cluster
  ansible.builtin.debug:
    msg: "To delete the cluster, run {{ 'destroy' | deeplearning.cluster.playbook_command }}"

- name: Show how to repeat this run with another job name
  ansible.builtin.debug:
    msg: "Run {{ 'train' | deeplearning.cluster.playbook_command({'training_job_name': 'bert-2'}) }}"
"""

RETURN = r"""
_value:
  description: The complete command line.
  type: str
  sample: ansible-playbook -i inventory/nodes.yml deeplearning.cluster.destroy
"""

from typing import Any

from ..plugin_utils.suggested_commands import playbook_command


class FilterModule:
    """Filters for messages."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"playbook_command": playbook_command}
