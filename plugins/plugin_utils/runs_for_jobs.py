# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks that the maximum cost of a job pays for its nodes before a task launches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.playbook.task import Task

from .cost_limit import before_launch, lease_minimum
from .node_variables import NodeVariables
from .value_checks import refusal


def run_for_job(
    task: Task, nodes: NodeVariables | None, run: Callable[[], dict[str, Any]], show: Callable[[str], None] | None, only_reads: bool
) -> tuple[dict[str, Any], list[str]]:
    """Run a task with the options of the definition. Return its result, and why the maximum cost does not pay for the job.

    The lease of the nodes need not last longer than this cost allows, so the prediction of the price does not consider the lease. `show`
    shows how long the job may run. A run that only reads uses this prediction if it is the same.
    """
    if nodes is None or not nodes.get("training_job_max_cost"):
        return run(), []
    given, is_check, limits = task.args, task.check_mode, list[int]()
    task.args, task.check_mode = {**given, "lease_minimum": 0}, True
    try:
        found = run()
    finally:
        task.args, task.check_mode = given, is_check
    if found.get("failed"):
        return found, []
    refused = refusal("training_job_", lambda: limits.extend(before_launch(nodes, found["price"], show)))
    least = 0 if refused else lease_minimum(given, *limits)
    if refused or (only_reads and not least):
        return found, refused
    task.args = {**given, "lease_minimum": least}
    return run(), []
