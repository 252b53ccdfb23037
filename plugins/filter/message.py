# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Turns facts into the messages of the collection's roles and playbooks."""

from __future__ import annotations

DOCUMENTATION = r"""
name: message
version_added: 0.2.0
short_description: Returns the text of a message
description:
  - Returns a message of the roles and playbooks of this collection. Messages may change in any release.
positional: name
options:
  _input:
    description: The facts that the message states. The keys depend on the message.
    type: dict
    required: true
  name:
    description: Name of the message.
    type: str
    required: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Report the result of the validation
  ansible.builtin.debug:
    msg: "{{ {'cluster': 'demo', 'findings': provision_validation.findings} | deeplearning.cluster.message('validated') }}"
"""

RETURN = r"""
_value:
  description: The message.
  type: str
  sample: "No errors and 1 warning: demo can be provisioned."
"""

from collections.abc import Mapping
from typing import Any


def message(facts: Mapping[str, Any], name: str) -> str:
    """Return the message about the facts."""
    # A playbook run that uses any of the collection's filters loads all filters, so this file imports only what most runs need.
    from ..plugin_utils import job_end_messages, job_messages, messages, node_end_messages, role_messages

    modules = (messages, job_messages, job_end_messages, node_end_messages, role_messages)
    text: str = next(vars(each)[name] for each in modules if name in vars(each))(**facts)
    return text


class FilterModule:
    """Filters for messages."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"message": message}
