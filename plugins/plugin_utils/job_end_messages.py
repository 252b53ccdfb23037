# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Messages about what follows a job: training_job_then, and nodes that stay. The filter `message` calls these functions by name."""

from __future__ import annotations

from typing import Any, Collection, Mapping

from ..module_utils._aws.pricing.charges import of_nodes
from ._output import prices
from .node_end_messages import node_ends
from .suggested_commands import playbook_command

DONE = {"destroy": "The cluster was destroyed.", "scale_in": "All workers were removed."}


def _not_applied(then: str) -> str:
    return f"training_job_then: {then} is not applied"


def _what_happened(has_failed: bool, out_of_reach: bool, not_started: bool) -> str:
    if out_of_reach:
        return "This run no longer reaches the job"
    return f"The job {'was not started' if not_started else 'failed' if has_failed else 'was not exported'}"


def costs_after_job(
    run: Mapping[str, Any],
    then: str,
    has_failed: bool,
    then_always: bool,
    groups: Collection[str] | None = None,
    out_of_reach: bool = False,
    not_started: bool = False,
) -> str:
    """Return whether the nodes continue to cost money after a job, how much, and until when, or an empty string if this run does not know.

    `run` is the result of the provisioning in this run, if any. `then` is training_job_then. `groups` contains the group of each node that
    still runs, if this run has listed them. With `out_of_reach`, the run does not know whether the job still runs.
    """
    if not run or run.get("skipped"):  # other nodes, such as those of EMR
        return ""
    if then != "keep" and (then_always or not has_failed):
        gone = " The next command works until then, and again when a run has launched nodes." if then == "destroy" else ""
        return f"The run continues with training_job_then: {then}.{gone}"
    why = f"{_what_happened(has_failed, out_of_reach, not_started)}, so {_not_applied(then)}. " if then != "keep" else ""
    return f"{why}{_continuing_costs(run, groups)}"


def _continuing_costs(run: Mapping[str, Any], groups: Collection[str] | None) -> str:
    price = run.get("price")
    price = of_nodes(price, groups) if price and groups is not None else price
    costs = (
        f"The cluster continues to cost {prices.per_hour(price)}"
        if price and prices.is_known(price)
        else "The nodes continue to cost money"
    )
    ends = node_ends(run.get("lease"), price, run.get("idle"), 1 if groups is None else len(groups))
    return f"{costs}. {ends}".rstrip() if ends else f"{costs}, until you run {playbook_command('destroy')}"


def used_name(job: str, directory: str, then: str) -> str:
    """Return that a job with this name has succeeded before the run, so that the action `then` does not follow it."""
    used = f"training_job_name: job {job} has already run and its results are in {directory}."
    if then == "keep":
        return f"{used} Choose another name, or remove this variable to get a name that contains the current time."
    return (
        f"{used} Because it had ended before this run, {_not_applied(then)}, and the nodes continue to cost money. To "
        f"delete the cluster and keep the file systems, run {playbook_command('destroy')}"
    )


def kept_nodes(then: str, has_failed: bool, out_of_reach: bool, running: str, not_started: bool = False) -> str:
    """Return why nodes stay after a job that has failed, is out of reach, was not exported, or for which no run has launched them.

    `running` is about the running nodes.
    """
    failed = has_failed and not out_of_reach and not not_started
    always = " To apply it even if a job fails, set training_job_then_always: true." if failed else ""
    what = _what_happened(has_failed, out_of_reach, not_started)
    return f"{what}, as shown above, so {_not_applied(then)}.{always} {running}"


def running_after_job(kept: Mapping[str, Any], continues: bool, login: str) -> str:
    """Return which nodes run after a job, and the command `login`, which logs in to the master.

    `kept` contains the arguments of `kept_nodes`. If the run `continues`, a later message says why nodes stay.
    """
    told = kept["running"] if kept["then"] == "keep" or continues else kept_nodes(**kept)
    return f"{told}\nTo log in to the master, run {login}"


def delayed_action(then: str, directory: str, minutes: int) -> str:
    """Return for how long the nodes stay after a job that was not exported, and how to keep them."""
    return (
        f"The job was not exported, as shown above. Its files stay in {directory}. The nodes keep running for {minutes} minutes, so that "
        f"you can export the job. After this time, training_job_then: {then} is applied. To keep the nodes, press Ctrl-C and then A, or "
        "cancel the run."
    )


def refused_action(then: str, reason: str) -> str:
    """Return that nodes stay because other jobs run on them, which is the `reason`, or because this could not be checked."""
    return f"{_not_applied(then)}. {reason or 'The running jobs could not be checked.'}"


def applied_action(then: str) -> str:
    """Return what was done after a job."""
    return DONE[then]


def failed_job_and_action(then: str) -> str:
    """Return that a job failed or was not exported, and what was done after it."""
    return f"The job failed or was not exported, as shown above. {DONE[then]}"
