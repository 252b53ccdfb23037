# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends custom checks to a node, runs the module of the same name, and compares the node's clock with the controller's clock."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._common.node_health.check import ON_DEMAND, CheckedNode, HealthFinding
from ..module_utils._common.node_health.clock import decide_clock
from ..plugin_utils import custom_health_checks, health_messages
from ..plugin_utils.answers import NodeAction


class ActionModule(NodeAction):
    """Adds custom checks to the task's arguments, and limits what a node can return."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        arguments = dict(self._task.args)
        is_on_demand = arguments.get("context", ON_DEMAND) == ON_DEMAND
        try:
            folder = arguments.get("checks") if is_on_demand else ""
            arguments["programs"] = custom_health_checks.programs(folder or "", [os.getcwd(), self._loader.get_basedir()])
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        before = time.time()
        answer = self._execute_module(self._module, module_args=arguments, task_vars=variables)
        if answer.get("failed"):
            return answer
        with self.reading(variables):
            findings = health_messages.findings_of(answer)
            if is_on_demand:
                findings += [
                    HealthFinding("clock", *problem) for problem in decide_clock((before, answer["time"], time.time()), CheckedNode(""))
                ]
        return {**answer, "findings": [finding._asdict() for finding in findings]}
