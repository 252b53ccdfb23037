# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name and shows its progress while it waits for nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..plugin_utils.answers import refuse_injected_facts
from ..plugin_utils.aws_progress import execute_watched
from ..plugin_utils.definition_checks import definition_errors
from ..plugin_utils.inventory_nodes import node_table, refuse_failed_inventory
from ..plugin_utils.keyboard import is_under_runner
from ..plugin_utils.node_end_messages import deletes_rest, removed_ends
from ..plugin_utils.node_variables import NodeVariables, node_variables
from ..plugin_utils.notifications import Notifications, of_provisioning
from ..plugin_utils.option_names import message_arguments, prefix_of
from ..plugin_utils.output import show
from ..plugin_utils.runs_for_jobs import run_for_job
from ..plugin_utils.variable_names import check_names
from ..plugin_utils.yaml_text import refuse_changed_text
from .confirmation import ask

# The options with which the module fails before it makes a change, the results that then say why, the questions about them, and what
# the questions are about, with `P` as in messages of modules. The user has set none of these options.
QUESTIONS: Mapping[str, tuple[str, Callable[[Any], str], str]] = {
    "enforce_price_warning": ("price_exceeded", lambda told: f"deeplearning_price_warning: after this run, {told}.", "{P}price_warning"),
    "keep_ends": ("removed_ends", removed_ends, "The end of the nodes"),
}


class ActionModule(ActionBase):
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        refuse_injected_facts()
        refuse_failed_inventory(task_vars or {})
        check_names(task_vars or {})
        if prefix_of(self._task) and self._task.action.endswith(".cluster"):
            variables = NodeVariables(task_vars or {}, self._templar.template, of_host=False)
            if errors := [*definition_errors(variables)]:  # Ansible's own check would be a task more
                raise AnsibleActionFail("\n".join(errors))
        refuse_changed_text(self._task, {"tags": {"type": "dict"}})
        found = self._execute_for_job(task_vars or {})
        self._notify(found, task_vars or {})
        if found.get("removed_ends") and "changes" in found:
            Display().warning(removed_ends(found["removed_ends"]))
        if found.get("nodes_ended"):
            found["msg"] = f"{found['msg']}\n{deletes_rest(found['price'])}"
        return {**result, **found}

    def _execute_for_job(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Run the module. In check mode, show how long a job with a maximum cost may run, unless there are nodes, which show it."""
        nodes = node_variables(variables, self._templar) if variables.get("__provision_for_job") else None
        is_check = self._task.check_mode
        told = show if is_check and not node_table(variables) else None
        found, refused = run_for_job(self._task, nodes, lambda: self._execute(variables), told, only_reads=is_check)
        return {"changed": False, "failed": True, "msg": refused[0]} if refused else found

    def _execute(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Run the module. On a terminal, ask before it makes the cluster cost more than `price_warning`, or removes what ends the nodes."""
        given, asked = {**self._task.args, **message_arguments(self._task)}, self._asked(variables)
        while True:
            self._task.args = {**given, **dict.fromkeys(asked, True)}
            found = execute_watched(self, variables, shares=True)
            option = next((each for each in asked if "changes" not in found and found.get(QUESTIONS[each][0])), None)
            if option is None:
                return found
            result, question, subject = QUESTIONS[option]
            answer = None if is_under_runner() else ask(f"{question(found[result])} Make the changes?")
            if answer not in (None, "yes"):
                told = f"{subject.format(P=prefix_of(self._task))}: nothing was changed, as you have answered."
                return found if answer is None else {**found, "msg": told}
            asked.remove(option)

    def _asked(self, variables: Mapping[str, Any]) -> list[str]:
        given = self._task.args
        if self._task.check_mode or not boolean(variables.get("deeplearning_confirm", True), strict=False):
            return []
        # The module for EMR does not have the second option
        priced = given.get("price_warning") is not None and boolean(given.get("prices", True), strict=False)
        possible = {"enforce_price_warning": priced, "keep_ends": self._task.action.endswith(".cluster")}
        return [option for option in QUESTIONS if possible[option] and not given.get(option)]

    def _notify(self, result: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
        # A prediction that fails ends the run
        is_silent = context.CLIARGS.get("check") or (self._task.check_mode and not result.get("failed"))
        events = [] if is_silent else [*of_provisioning(result)]
        if events:
            notifications = Notifications(self, variables)
            for event, text in events:
                notifications.send(event, text)
            notifications.show_problems()
