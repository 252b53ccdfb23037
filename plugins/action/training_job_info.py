# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on a host, and returns only the documented return values."""

from __future__ import annotations

import os
import shlex
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ..plugin_utils.answers import NodeAction
from ..plugin_utils.job_watch import job_info


class ActionModule(NodeAction):
    """Runs the module on a node and filters the module result."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        return {"changed": False, "jobs": [], "problems": []} if self._is_missing() else job_info(self, self._task.args, variables)

    def _is_missing(self) -> bool:
        """Return whether `missing_ok` is set and the job has no directory. To find this out, a shell command is faster than the module."""
        arguments = self._task.args
        path = os.path.join(str(arguments.get("directory") or ""), str(arguments.get("name") or ""))
        if not boolean(arguments.get("missing_ok", False), strict=False) or not path.startswith("/") or "$" in path:
            return False
        return bool(self._low_level_execute_command(f"test -e {shlex.quote(path)}")["rc"] == 1)
