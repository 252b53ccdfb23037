# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on a host, and returns only the documented return values."""

from __future__ import annotations

from typing import Any

from ..plugin_utils.answers import NodeAction
from ..plugin_utils.queue_nodes import only_requested


class ActionModule(NodeAction):
    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        return only_requested(super().run_module(variables), self._task.args, self._host, self._module)
