# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on a host, and returns only the documented return values."""

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display

from ..module_utils._job.naming import JOB_NAME
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.budget import Budget
from ..plugin_utils.documented_values import refusal

display = Display()


class ActionModule(NodeAction):
    """Checks the job names in the module result, because users see these names when they confirm the deletion."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        answer = super().run_module(variables)
        for problem in Budget().messages(answer.get("problems") or [], "problems"):
            display.warning(problem)
        jobs = [*(answer.get("jobs") or []), *(answer.get("kept") or [])]
        for name in [*(job["name"] for job in jobs), *(answer.get("running") or [])]:
            if not JOB_NAME.fullmatch(name):
                return refusal(self._host, self._module, f"{name[:70]!r} is not a valid job name")
        return answer
