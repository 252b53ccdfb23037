# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on a host, and returns only the documented return values."""

from __future__ import annotations

from typing import Any

from ..plugin_utils.answers import NodeAction


class ActionModule(NodeAction, module="munge_key"):
    """Runs the module on a node and filters the module result."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        return {**result, **self._execute_module("deeplearning.cluster.munge_key", task_vars=task_vars)}
