# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name and shows its progress while it waits for nodes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils.answers import refuse_injected_facts
from ..plugin_utils.nodes import refuse_failed_inventory
from ..plugin_utils.notifications import Notifications, of_provisioning
from ..plugin_utils.option_names import of_run, result_of_run
from ..plugin_utils.progress import execute_watched
from ..plugin_utils.variable_names import check_names
from ..plugin_utils.yaml_text import refuse_changed_text


class ActionModule(ActionBase):
    """Runs the module and, if it runs on the controller, shows its progress."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        refuse_injected_facts()
        refuse_failed_inventory(task_vars or {})
        check_names(task_vars or {})
        refuse_changed_text(self._task, {"tags": {"type": "dict"}}, of_run)
        found = execute_watched(self, task_vars, functools.partial(of_run, self._task))
        found = result_of_run(self._task, found)
        self._notify(found, task_vars or {})
        return {**result, **found}

    def _notify(self, result: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
        events = [] if self._task.check_mode else [*of_provisioning(result)]
        if events:
            notifications = Notifications(self, variables)
            for event, text in events:
                notifications.send(event, text)
            notifications.show_problems()
