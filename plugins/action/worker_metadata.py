# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on hosts whose cluster metadata is missing or outdated."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from ..module_utils._common import gpus
from ..module_utils._common.worker_metadata import converge
from ..plugin_utils import snapshot
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.snapshot import Inspection, Request, Snapshot


class ActionModule(NodeAction):
    """Skips correctly configured hosts, and runs the module once on every other host."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        found = snapshot.inspect(self, inspection(self._task.args))
        return found[0] if found else super().run_module(variables)


def inspection(arguments: Mapping[str, Any]) -> Inspection:
    return Inspection(arguments, converge.SPECIFICATION, check)


def check(parameters: dict[str, Any]) -> Generator[Request, Snapshot, dict[str, Any] | None]:
    """Return the task's result if the host is configured correctly, and None otherwise."""
    if parameters["state"] != "present":
        return None
    host = yield Request(parameters["user"], converge.paths(parameters), gpus.LIST)
    if host.status not in (0, snapshot.NOT_FOUND):
        return None
    gpu_count = gpus.count_listed(host.output)
    if not converge.is_right(parameters, gpu_count, host):
        return None
    return {"changed": False, "diff": [], **converge.facts(parameters, gpu_count)}
