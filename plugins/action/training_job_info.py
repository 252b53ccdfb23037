# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on a host, and returns only the documented return values."""

from __future__ import annotations

from typing import Any

from ..plugin_utils.answers import NodeAction
from ..plugin_utils.job_watch import job_info


class ActionModule(NodeAction, module="training_job_info"):
    """Runs the module on a node and filters the module result."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        return job_info(self, self._task.args, variables)
