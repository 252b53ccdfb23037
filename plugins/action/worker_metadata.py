# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on hosts whose cluster metadata is missing or outdated."""

from __future__ import annotations

from typing import Any

from ..module_utils._hosts import gpus
from ..module_utils._hosts.worker_metadata import converge
from ..plugin_utils import snapshot
from ..plugin_utils.answers import NodeAction


class ActionModule(NodeAction, module="worker_metadata"):
    """Skips correctly configured hosts, and runs the module once on every other host."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        found = snapshot.inspect(self._task.args, converge.SPECIFICATION, self._find)
        return found or super().run_module(variables)

    def _find(self, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Return the task's result if the host is configured correctly, and None otherwise."""
        if parameters["state"] != "present":
            return None
        host = snapshot.take(self, parameters["user"], converge.paths(parameters), gpus.LIST)
        if host is None or host.status not in (0, snapshot.NOT_FOUND):
            return None
        gpu_count = gpus.count_listed(host.output)
        if not converge.is_right(parameters, gpu_count, host):
            return None
        return {"changed": False, "diff": [], **converge.facts(parameters, gpu_count)}
