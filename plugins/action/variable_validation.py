# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks the variables of a playbook run. The checks run on the controller, without a module."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.plugins.loader import filter_loader, test_loader
from ansible.utils.display import Display

from ..module_utils._aws.validator import Level
from ..plugin_utils.answers import refuse_injected_facts
from ..plugin_utils.controller_checks import DATASET, EXPORT, JOB, NAMES, findings_of_task, value_findings
from ..plugin_utils.inventory_nodes import refuse_failed_inventory
from ..plugin_utils.variable_names import known_variables, messages_of, name_findings

ARGUMENTS = {
    "subject": {"type": "str", "choices": [JOB, DATASET, EXPORT, NAMES], "default": JOB},
    "required": {"type": "bool", "default": False},
    "options": {"type": "list", "elements": "str", "default": []},
    "roles": {"type": "list", "elements": "str", "default": []},
}

# What many tasks need is loaded here, before Ansible starts a process for each of them: the names of the variables, and all filters of this
# collection and all tests of Ansible, which Ansible loads along with the first of them.
filter_loader.get("deeplearning.cluster.message")
test_loader.get("ansible.builtin.match")
known_variables()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        refuse_injected_facts()
        refuse_failed_inventory(task_vars or {})
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        subject, variables = arguments["subject"], task_vars or {}
        if subject == NAMES:
            findings = [*name_findings(variables, arguments["options"]), *value_findings(self, variables, arguments["roles"])]
        else:
            findings = findings_of_task(self, variables, subject, needs_job=arguments["required"])
        for message in messages_of(findings, Level.WARNING):
            Display().warning(message)
        if errors := messages_of(findings, Level.ERROR):
            return {**result, "failed": True, "msg": "\n".join(errors)}
        return {**result, "changed": False, "findings": [finding.as_dict() for finding in findings]}
