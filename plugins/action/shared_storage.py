# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on hosts where the storage is not mounted correctly."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from ..module_utils._aws.regions import partition_of
from ..module_utils._common.shared_storage import converge
from ..plugin_utils import snapshot
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.snapshot import Inspection, Request, Snapshot


class ActionModule(NodeAction):
    """Skips correctly configured hosts, and runs the module once on every other host."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        try:
            arguments = with_suffix(self._task.args)
        except ValueError as error:
            return {"failed": True, "msg": str(error)}
        found = snapshot.inspect(self, inspection(arguments))
        return found[0] if found else self._execute_module(self._module, module_args=arguments, task_vars=variables)


def with_suffix(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the task and botocore's DNS suffix for the region. Raises ValueError if the suffix is unknown."""
    region = arguments.get("region")
    return {"dns_suffix": partition_of(region).dns_suffix, **arguments} if region else arguments


def inspection(arguments: Mapping[str, Any]) -> Inspection:
    return Inspection(arguments, converge.SPECIFICATION, check)


def check(parameters: dict[str, Any]) -> Generator[Request, Snapshot, dict[str, Any] | None]:
    """Return the task's result if the host is configured correctly, and None otherwise."""
    if parameters["state"] != "present":
        return None
    host = yield Request(parameters["owner"], [*converge.PATHS, parameters["path"]], converge.LIST_TUNNELS)
    storage = converge.find_right(parameters, host, host.output.split())
    return {"changed": False, "diff": [], **converge.facts(storage)} if storage else None
