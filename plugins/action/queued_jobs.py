# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on a host with values from the inventory, and returns only the documented return values."""

from __future__ import annotations

from typing import Any

from ..plugin_utils.answers import NodeAction, checked_identity
from ..plugin_utils.inventory_nodes import instance_arguments


class ActionModule(NodeAction):
    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        arguments = dict(self._task.args)
        state = arguments.get("state", "present")
        if state == "examined" and arguments.get("efa") is None:
            arguments["efa"] = variables.get("deeplearning_has_efa", False)
        if state == "present":
            arguments = {**instance_arguments(variables), **arguments}
        answer = self._execute_module(self._module, module_args=arguments, task_vars=variables)
        if state == "examined" and not answer.get("failed"):
            return checked_identity(answer, variables, "queued_jobs")
        return answer
