# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on hosts where the storage is not mounted correctly."""

from __future__ import annotations

from typing import Any

from ..module_utils._aws.regions import partition_of
from ..module_utils._hosts.shared_storage import converge
from ..plugin_utils import snapshot
from ..plugin_utils.answers import NodeAction


class ActionModule(NodeAction, module="shared_storage"):
    """Skips correctly configured hosts, and runs the module once on every other host."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        try:
            arguments = self._arguments()
        except ValueError as error:
            return {"failed": True, "msg": str(error)}
        found = snapshot.inspect(arguments, converge.SPECIFICATION, self._find)
        return found or self._execute_module(self._module, module_args=arguments, task_vars=variables)

    def _arguments(self) -> dict[str, Any]:
        """Return the task's arguments and botocore's DNS suffix for the region. Raises ValueError if the suffix is unknown."""
        arguments: dict[str, Any] = self._task.args
        region = arguments.get("region")
        return {"dns_suffix": partition_of(region).dns_suffix, **arguments} if region else arguments

    def _find(self, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Return the task's result if the host is configured correctly, and None otherwise."""
        if parameters["state"] != "present":
            return None
        host = snapshot.take(self, parameters["owner"], [*converge.PATHS, parameters["path"]], converge.LIST_TUNNELS)
        storage = host and converge.find_right(parameters, host, host.output.split())
        return {"changed": False, "diff": [], **converge.facts(storage)} if storage else None
