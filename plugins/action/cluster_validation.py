# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the checks that only the controller can make, then the module of the same name, and reports all findings together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible.utils.display import Display

from ..module_utils._aws.node_services import DEFAULT
from ..module_utils._aws.validator import Finding, Level
from ..plugin_utils.answers import refuse_injected_facts
from ..plugin_utils.controller_checks import JOB, PRIVATE_KEY, VALUE_TYPE, findings_of_task
from ..plugin_utils.in_process import InProcessAction
from ..plugin_utils.inventory_nodes import refuse_failed_inventory
from ..plugin_utils.node_end_messages import deletes_rest, removed_ends
from ..plugin_utils.node_variables import node_variables
from ..plugin_utils.option_names import message_arguments
from ..plugin_utils.output import show
from ..plugin_utils.runs_for_jobs import run_for_job
from ..plugin_utils.variable_names import messages_of


class ActionModule(InProcessAction):
    """Runs the module and adds the findings of the controller's checks to the module's findings."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        refuse_injected_facts()
        refuse_failed_inventory(variables)
        # The module's own private key validator returns the same findings as the controller
        own = [finding for finding in findings_of_task(self, variables, JOB) if finding.validator != PRIVATE_KEY]
        result, refused = self._validate(variables)
        own += [finding for message in refused if (finding := Finding(JOB, Level.ERROR, message)) not in own]
        if result.get("removed_ends") and not result.get("failed"):
            own.append(Finding("removed_ends", Level.WARNING, removed_ends(result["removed_ends"])))
        if result.get("nodes_ended"):
            result["msg"] = f"{result['msg']}\n{deletes_rest(result['price'])}"
        return with_findings(result, own)

    def _validate(self, variables: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Run the module. Return its result, and why the maximum cost of a job does not pay for the nodes that `provision` launches."""
        has_budget = variables.get("deeplearning_node_service", DEFAULT) == DEFAULT
        nodes = node_variables(variables, self._templar) if has_budget else None
        self._task.args = {**self._task.args, **message_arguments(self._task)}
        run = super().run
        return run_for_job(self._task, nodes, lambda: run(None, variables), show, only_reads=True)


def with_findings(result: dict[str, Any], own: Sequence[Finding]) -> dict[str, Any]:
    """Return the result of the module with the findings of the controller, and show the warnings among them if no error is shown."""
    errors, has_failed = messages_of(own, Level.ERROR), result.get("failed")
    for message in () if errors or has_failed else messages_of(own, Level.WARNING):
        Display().warning(message)
    findings = [*(finding.as_dict() for finding in own), *result.get("findings", [])]
    findings.sort(key=lambda finding: finding["level"] != Level.ERROR.value)
    if errors:
        # If the controller has found a value of the wrong type, the module fails because of the same value, so its message is left out
        is_wrong_type = any(finding.validator == VALUE_TYPE for finding in own)
        errors += [result["msg"]] if has_failed and not is_wrong_type else []
        result = {**result, "failed": True, "valid": False, "msg": "\n".join(errors)}
    return {**result, "findings": findings}
