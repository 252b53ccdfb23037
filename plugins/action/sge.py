# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on a host, and returns only the documented return values."""

from __future__ import annotations

from typing import Any

from ..plugin_utils.answers import NodeAction
from ..plugin_utils.yaml_text import refuse_changed_text


class ActionModule(NodeAction):
    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        refuse_changed_text(self._task, {"parameters": {"type": "dict"}})
        return super().run_module(variables)
