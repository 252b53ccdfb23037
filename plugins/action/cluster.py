# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name and shows its progress while it waits for nodes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ..plugin_utils.answers import refuse_injected_facts
from ..plugin_utils.aws_progress import execute_watched
from ..plugin_utils.inventory_nodes import refuse_failed_inventory
from ..plugin_utils.keyboard import is_under_runner
from ..plugin_utils.messages import deletes_rest
from ..plugin_utils.notifications import Notifications, of_provisioning
from ..plugin_utils.option_names import of_run, result_of_run
from ..plugin_utils.variable_names import check_names
from ..plugin_utils.yaml_text import refuse_changed_text
from .confirmation import ask


class ActionModule(ActionBase):
    """Runs the module and, if it runs on the controller, shows its progress."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        refuse_injected_facts()
        refuse_failed_inventory(task_vars or {})
        check_names(task_vars or {})
        refuse_changed_text(self._task, {"tags": {"type": "dict"}}, of_run)
        found = result_of_run(self._task, self._execute(task_vars or {}))
        self._notify(found, task_vars or {})
        if found.get("nodes_ended"):
            found["msg"] = f"{found['msg']} {deletes_rest(found['price'])}"
        return {**result, **found}

    def _execute(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Run the module. On a terminal, ask before the module makes the cluster cost more than `price_warning`."""
        show = functools.partial(of_run, self._task)
        watched = functools.partial(execute_watched, self, variables, show, shares=True)
        given = self._task.args
        asks = given.get("price_warning") is not None and not given.get("enforce_price_warning") and not self._task.check_mode
        if not asks or not boolean(variables.get("deeplearning_confirm", True), strict=False):
            return watched()
        self._task.args = {**given, "enforce_price_warning": True}
        found = watched()
        if not found.get("price_exceeded"):
            return found
        answer = None if is_under_runner() else ask(f"{show(found['msg'])} Make the changes?")
        if answer not in (None, "yes"):
            return found
        self._task.args = given
        return watched()

    def _notify(self, result: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
        events = [] if self._task.check_mode else [*of_provisioning(result)]
        if events:
            notifications = Notifications(self, variables)
            for event, text in events:
                notifications.send(event, text)
            notifications.show_problems()
