# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sentences about when and why AWS ends the nodes of a cluster: by its lease, or because they are idle."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from ..module_utils._aws.idle import holds
from ..module_utils._aws.idle.definition import TERMINATE
from ..module_utils._aws.idle.function import IN_USE, NO_NODES, SILENT, UNCONFIGURED, UNREPORTED, WARNING
from ..module_utils._aws.idle.messages import NEVER, shown, unreachable
from ._output import prices
from ._output.prices import Price
from ._output.words import duration, plural
from .suggested_commands import playbook_command

# Seconds that AWS has to terminate the nodes after the end of their lease.
LATE = 600
# Seconds after which what AWS has found about idle nodes is too old. It writes that at least once an hour.
OLD = 4500


def ends_after_run(lease: Mapping[str, Any] | None, price: Price | None, idle: Mapping[str, Any] | None) -> str:
    """Return what ends the nodes after a run that is only predicted, and what the rest of the cluster then costs."""
    return f"{node_ends(lease, price, idle, 0)}{endless(lease, idle)}".rstrip()


def endless(lease: Mapping[str, Any] | None, idle: Mapping[str, Any] | None) -> str:
    """Return that nothing ends the nodes and what to do, or an empty string. Notifications about idle nodes do not end them."""
    if lease or (idle and idle["then"] == TERMINATE):
        return ""
    option = "deeplearning_idle_then: terminate" if idle else "deeplearning_idle_after"
    return f"Nothing ends the nodes by itself. To let AWS terminate them, set deeplearning_lease or {option}."


def node_ends(
    lease: Mapping[str, Any] | None, price: Price | None, idle: Mapping[str, Any] | None, count: int, *, is_current: bool = False
) -> str:
    """Return when AWS terminates the nodes. If it has done so, return only why. `is_current` has the same meaning as for `_idle_end`."""
    if _has_ended_idle(idle, count):
        lease = None
    elif lease and lease["seconds"] <= 0 and not count:
        idle = None
    return _lease_end(lease, price, count) + _idle_end(idle, count, is_current=is_current)


def _lease_end(lease: Mapping[str, Any] | None, price: Price | None, count: int) -> str:
    """Return when AWS terminates the nodes, and what the cluster costs afterwards. `count` is the number of running nodes."""
    if not lease:
        return ""
    end = utc(lease["end"])
    # The run has read the seconds before its job, during which another run can prolong the lease
    left = min(lease["seconds"], datetime.fromisoformat(lease["end"]).timestamp() - time.time())
    after = prices.without_nodes(price) if price else None
    rest = f" The rest of the cluster then costs {prices.sums(after)}." if after and prices.is_known(after) else ""
    if left <= 0 < lease["seconds"] and count:
        return f"The lease ended at {end}, unless another run has prolonged it.{rest} "
    if left <= 0:
        if count and left < -LATE:
            return (
                f"The lease ended at {end}, but AWS has not terminated the nodes. Look for denied calls of DeleteAutoScalingGroup in "
                f"CloudTrail, and run {playbook_command('destroy')}. "
            )
        return f"The lease ended at {end}, and AWS {'terminates' if count else 'has terminated'} the nodes.{rest} "
    unless = "" if lease["fixed"] else ", unless a run prolongs the lease"
    return f"AWS terminates the nodes at {end}, in {duration(left)}{unless}.{rest} "


def _has_ended_idle(idle: Mapping[str, Any] | None, count: int) -> bool:
    return bool(idle and idle["since"] and not count and idle["then"] == "terminate")


def _idle_end(idle: Mapping[str, Any] | None, count: int, *, is_current: bool = False) -> str:
    """Return what AWS does with idle nodes. `count` is the number of running nodes.

    `is_current` says that the run has only read this. Other runs use the nodes themselves, so they tell only of problems.
    """
    if not idle:
        return ""
    if _has_ended_idle(idle, count):
        return f"AWS terminated the nodes, which had been idle since {utc(idle['since'])}. {_failure(idle)}"
    does = "terminates the nodes" if idle["then"] == "terminate" else "sends a notification"
    # Other runs have read the holds before their job, and their own hold has ended since
    held = max(idle["holds"].values(), default="") if is_current else ""
    kept = f", but not before {utc(held)} ({_hold_names(idle['holds'])})" if held else ""
    found = (_not_called(idle) or _idle_found(idle, is_current)) if count else ""
    return f"AWS {does} when all of them have been idle for {duration(idle['seconds'])}{kept}.{found} {_failure(idle)}"


def _failure(idle: Mapping[str, Any]) -> str:
    """Return why AWS could not send its last message about idle nodes, and what to do."""
    if not idle["failure"]:
        return ""
    return (
        f"AWS could not send the message of {utc(idle['failure']['time'])} ({idle['failure']['error']}). Check that the topic in "
        f"deeplearning_notify_topic exists, and that its policy and its key allow role {idle['function']}-{idle['region']} to publish. "
    )


def _not_called(idle: Mapping[str, Any]) -> str:
    """Return that AWS may not call the function, and what to do."""
    if idle["concurrency"] != 0:
        return ""
    return (
        f" But AWS does not look at them, because the reserved concurrency of {idle['function']} is 0. To change that, run aws lambda "
        f"delete-function-concurrency --function-name {idle['function']} --region {idle['region']}."
    )


def _hold_names(found: Iterable[str]) -> str:
    """Return the names of holds. Others can set names that are text, which are only counted."""
    names = sorted(filter(holds.NAME.fullmatch, found))
    others = len(list(found)) - len(names)
    return ", ".join([*names, *([plural(others, "other hold", "other holds")] if others else [])])


def _idle_found(idle: Mapping[str, Any], is_current: bool) -> str:
    """Return what AWS has found when it last looked at the nodes."""
    verdict = idle.get("verdict")
    if verdict is None and not is_current:
        return ""  # this run has changed the function
    if verdict is None or verdict["age"] > OLD:
        sign = f" (the last sign is of {utc(verdict['written'])})" if verdict else ""
        return (
            f" But AWS does not look at them{sign}. To repair that, run {playbook_command('provision')}. If it lasts, this shows the "
            f"error: aws lambda invoke --function-name {idle['function']} --region {idle['region']} --log-type Tail --query LogResult "
            "--output text /dev/null | base64 -d."
        )
    state, node = verdict["state"], verdict["node"]
    if state == SILENT or (state in (UNREPORTED, UNCONFIGURED) and is_current):
        advice = {UNCONFIGURED: f" {NEVER}.", SILENT: f" {unreachable(node, verdict['instance_id'], idle['region'])}."}.get(state, "")
        return (
            f" {node} has not reported since {utc(verdict['since'])}, so no node ends. To let it report, run "
            f"{playbook_command('configure')}.{advice}"
        )
    if not is_current:
        return ""
    if state == IN_USE:
        return f" {node} was in use at {utc(verdict['written'])}: cat /run/deeplearning-idle.json on it says why."
    return " It has not looked at them yet." if state == NO_NODES else _all_idle(idle)


def _all_idle(idle: Mapping[str, Any]) -> str:
    since, then = datetime.fromisoformat(idle["verdict"]["since"]), ""
    if idle["warned"] and idle["then"] == "terminate":
        warned = datetime.fromisoformat(idle["warned"])
        # AWS begins to terminate nodes about 10 minutes after it has warned people
        end = max(since + timedelta(seconds=idle["seconds"]), warned + WARNING)
        then = f" The warning was sent at {shown(warned)}, and AWS terminates them at about {shown(end)}."
        if idle["since"] and time.time() - warned.timestamp() > 2 * LATE:
            then = " AWS should have terminated them: look for denied calls of DeleteAutoScalingGroup in CloudTrail."
    return f" All of them have been idle since {shown(since)}.{then}"


def ended_nodes(lease: Mapping[str, Any] | None, idle: Mapping[str, Any] | None, price: Price | None) -> str:
    """Return why AWS has terminated the nodes of a cluster without nodes, and what to do next, or an empty string if it has not."""
    is_idle = _has_ended_idle(idle, 0)
    if not is_idle and not (lease and lease["seconds"] <= 0):
        return ""
    again = f"run {playbook_command('provision')} -e deeplearning_start_again=true"
    if lease and lease["fixed"] and not is_idle:
        again = f"change deeplearning_lease to a later time, and run {playbook_command('provision')}"
    return f"{node_ends(lease, None, idle, 0)}To start nodes again, {again}. {deletes_rest(price)}"


def emr_end(emr: Mapping[str, Any] | None) -> str:
    """Return when EMR terminates its cluster, or why it has done so, or an empty string. `emr` is a result of cluster_info."""
    if emr and emr["ended"]:
        when = f"terminated at {utc(emr['end'])}" if emr["end"] else "is terminating"
        reason = f": {emr['reason'].rstrip('.')}" if emr["reason"] else ""
        return f"EMR cluster {emr['id']} {when}{reason}. To create a new one, run {playbook_command('emr')}"
    return f"EMR terminates the cluster when it has been idle for {duration(emr['idle_seconds'])}." if emr and emr["idle_seconds"] else ""


def missing_emr(emr: Mapping[str, Any] | None) -> str:
    """Return why an EMR cluster has no nodes, or an empty string without one. `emr` is a result of cluster_info."""
    return f"EMR cluster {emr['id']} is starting. Run the playbook again in some minutes." if emr and not emr["ended"] else emr_end(emr)


def removed_ends(removed: Mapping[str, Any]) -> str:
    """Return what a run removes of that which ends the nodes. `removed` is `removed_ends` in the result of the module `cluster`."""
    lease, idle, topic = removed["lease"], removed["idle"], removed["topic"]
    does = "the end of" if idle and idle["then"] == TERMINATE else "the notification about"
    what = {
        "deeplearning_lease": lease and f"the lease that ends at {utc(lease['end'])}",
        "deeplearning_idle_after": idle and f"{does} nodes that have been idle for {duration(idle['seconds'])}",
        "deeplearning_notify_topic": topic and f"the messages to {topic}",
    }
    missing = [option for option, told in what.items() if told]
    then = " The nodes then run, and cost money, until somebody terminates them." if removed["endless"] else ""
    return (
        f"This run removes {' and '.join(filter(None, what.values()))}, because the definition does not set {' and '.join(missing)}.{then}"
    )


def deletes_rest(price: Price | None) -> str:
    """Return how to delete the rest of a cluster whose nodes AWS has terminated, and what the rest costs, if that is known."""
    after = prices.without_nodes(price) if price else None
    costs = f"costs {prices.per_hour(after)}" if after and prices.is_known(after) else "continues to cost money"
    return f"To delete the rest of the cluster, which {costs}, run {playbook_command('destroy')}"


def utc(text: str) -> str:
    """Return a time such as 2026-12-01T18:00:00Z for people."""
    return f"{text[:16].replace('T', ' ')} UTC"
