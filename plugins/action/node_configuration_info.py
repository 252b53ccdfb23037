# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks with one shell command whether a host needs no changes by the modules that configure nodes."""

from __future__ import annotations

from typing import Any

from ..plugin_utils import snapshot
from ..plugin_utils.answers import NodeAction
from . import shared_storage, ssh_trust, worker_metadata


class ActionModule(NodeAction):
    """Makes the inspections of the other actions. With one round trip instead of three, jobs start earlier."""

    _supports_check_mode = True

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        given = self._task.args
        try:
            storage = shared_storage.with_suffix(given["shared_storage"])
        except ValueError:
            return {"changed": False, "configured": False}
        inspections = (
            ssh_trust.inspection(given["ssh_trust"]),
            shared_storage.inspection(storage),
            worker_metadata.inspection(given["worker_metadata"]),
        )
        return {"changed": False, "configured": snapshot.inspect(self, *inspections) is not None}
