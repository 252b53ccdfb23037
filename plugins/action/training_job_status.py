# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shows what training_job_info finds: a line for each job, or one job with its processes."""

from __future__ import annotations

from typing import Any, Mapping

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import text

display = Display()


class ActionModule(ActionBase):
    """Passes the task's arguments on and shows the answer."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        result.update(
            self._execute_module("deeplearning.cluster.training_job_info", module_args=dict(self._task.args), task_vars=task_vars)
        )
        if not result.get("failed"):
            for line in shown(result["jobs"], self._task.args):
                display.display(line)
        return result


def shown(jobs: list[dict[str, Any]], arguments: Mapping[str, Any]) -> list[str]:
    """Return the lines that tell about the jobs."""
    if not jobs:
        return [f"there are no jobs in {arguments['directory']}"]
    lines = [line for job in jobs for line in job["lines"]]
    if arguments.get("name") and "failure" in jobs[0]:
        lines.append(text.failure_message(jobs[0]))
    return lines
