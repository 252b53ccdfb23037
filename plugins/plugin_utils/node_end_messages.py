# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sentences about when and why AWS ends the nodes of a cluster: by its lease, or because they are idle."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from ..module_utils._aws.idle import holds
from ..module_utils._aws.idle.definition import TERMINATE
from ..module_utils._aws.idle.function import IN_USE, NO_NODES, SILENT, UNCONFIGURED, UNREPORTED, WARNING
from ..module_utils._aws.idle.messages import NEVER, shown, unreachable
from ..module_utils._aws.lease.definition import INTERVAL
from ..module_utils._words import form, plural
from ._output import prices
from ._output.prices import Price
from ._output.words import duration
from .suggested_commands import playbook_command

# What ends the nodes, by the options that set it.
ENDS = {"lease": "the lease", "idle_after": "the end of idle nodes"}
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
    """Return when AWS terminates the nodes. If it has done so, return only why. `is_current` has the same meaning as for `_idle_end`.

    A command is at the end of its line.
    """
    if _has_ended_idle(idle, count):
        lease = None
    elif lease and lease["seconds"] <= 0 and not count:
        idle = None
    earlier = " earlier" if lease and lease["seconds"] > 0 else ""
    return _lease_end(lease, price, count) + _idle_end(idle, count, earlier, is_current=is_current)


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
                "CloudTrail, and run the playbook destroy. "
            )
        return f"The lease ended at {end}, and AWS {'terminates' if count else 'has terminated'} the nodes.{rest} "
    return f"AWS terminates the nodes at {end}, in {duration(left)}{_terms(lease)}{rest} "


def _terms(lease: Mapping[str, Any]) -> str:
    """Return the end of the sentence about a lease, and why it is longer than in the definition, if it is."""
    unless = "" if lease["fixed"] else ", unless a run prolongs the lease"
    longer = " This is longer than deeplearning_lease, because the job may take so long." if lease["longer"] else ""
    return f"{unless}.{longer}"


def _has_ended_idle(idle: Mapping[str, Any] | None, count: int) -> bool:
    return bool(idle and idle["since"] and not count and idle["then"] == TERMINATE)


def _idle_end(idle: Mapping[str, Any] | None, count: int, earlier: str = "", *, is_current: bool = False) -> str:
    """Return what AWS does with idle nodes. `count` is the number of running nodes. `earlier` is a word if there is a later end.

    `is_current` says that the run has only read this. Other runs use the nodes themselves, so they tell only of problems.
    """
    if not idle:
        return ""
    if _has_ended_idle(idle, count):
        return f"AWS terminated the nodes, which had been idle since {utc(idle['since'])}. {_failure(idle)}"
    does = f"terminates {'them' if earlier else 'the nodes'}{earlier}" if idle["then"] == TERMINATE else "sends a notification"
    # Other runs have read the holds before their job, and their own hold has ended since
    held = max(idle["holds"].values(), default="") if is_current else ""
    kept = f", but not before {utc(held)} ({_hold_names(idle['holds'])})" if held else ""
    found = (_not_called(idle) or _idle_found(idle, is_current, held)) if count else ""
    space = "" if found.endswith("\n") else " "
    return f"AWS {does} when all of them have been idle for {duration(idle['seconds'])}{kept}.{found}{space}{_failure(idle)}"


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
        f"delete-function-concurrency --function-name {idle['function']} --region {idle['region']}\n"
    )


def _hold_names(found: Iterable[str]) -> str:
    """Return the names of holds. Others can set names that are text, which are only counted."""
    names = sorted(filter(holds.NAME.fullmatch, found))
    others = len(list(found)) - len(names)
    return ", ".join([*names, *([plural(others, "other hold", "other holds")] if others else [])])


def _idle_found(idle: Mapping[str, Any], is_current: bool, held: str) -> str:
    """Return what AWS has found when it last looked at the nodes. `held` is the end of the last hold, or empty."""
    verdict = idle.get("verdict")
    if verdict is None and not is_current:
        return ""  # this run has changed the function
    if verdict is None or verdict["age"] > OLD:
        sign = f" (the last sign is of {utc(verdict['written'])})" if verdict else ""
        return (
            f" But AWS does not look at them{sign}. To repair that, run the playbook provision. If it lasts, this shows the error: aws "
            f"lambda invoke --function-name {idle['function']} --region {idle['region']} --log-type Tail --query LogResult --output text "
            "/dev/null | base64 -d\n"
        )
    state, node = verdict["state"], verdict["node"]
    if state in (SILENT, UNREPORTED, UNCONFIGURED):
        return _unreported(idle, is_current)
    if not is_current:
        return ""
    if state == IN_USE:
        return f" {node} was in use at {utc(verdict['written'])}: cat /run/deeplearning-idle.json on it says why."
    return " It has not looked at them yet." if state == NO_NODES else _all_idle(idle, held)


def _unreported(idle: Mapping[str, Any], is_current: bool) -> str:
    """Return that a node reports nothing. The nodes may have been configured since AWS looked at them."""
    verdict, every = idle["verdict"], duration(INTERVAL.total_seconds())
    node, state, since = verdict["node"], verdict["state"], utc(verdict["since"])
    if not is_current:
        told = f" Before this run, {node} had not reported since {since}, so no node ended. The playbook info says whether it reports now."
        return told if state == SILENT else ""
    if verdict["age"] <= INTERVAL.total_seconds():
        return f" {node} had not reported when AWS looked at {utc(verdict['written'])}. AWS looks every {every}."
    never = f" {NEVER}" if state == UNCONFIGURED else ""
    told = f" {node} has not reported since {since}, so no node ends.{never} AWS sees a new report within {every}. To let it report, run "
    if state == SILENT:
        return f"{told}the playbook configure. {unreachable(node, verdict['instance_id'], idle['region'])}\n"
    return f"{told}{playbook_command('configure')}\n"


def _all_idle(idle: Mapping[str, Any], held: str) -> str:
    since, then = datetime.fromisoformat(idle["verdict"]["since"]), ""
    if idle["then"] == TERMINATE and not idle["warned"]:
        # AWS warns people about 10 minutes before the end, and not during a hold
        warned = max([datetime.fromtimestamp(time.time(), timezone.utc), *([datetime.fromisoformat(held)] if held else [])])
        end = max(since + timedelta(seconds=idle["seconds"]), warned + WARNING)
        then = f" AWS terminates them at {shown(end)} at the earliest."
    if idle["warned"] and idle["then"] == TERMINATE:
        warned = datetime.fromisoformat(idle["warned"])
        # AWS begins to terminate nodes about 10 minutes after it has warned people
        end = max(since + timedelta(seconds=idle["seconds"]), warned + WARNING)
        then = f" The warning was sent at {shown(warned)}, and AWS terminates them at about {shown(end)}."
        if idle["since"] and time.time() - warned.timestamp() > 2 * LATE:
            then = " AWS should have terminated them: look for denied calls of DeleteAutoScalingGroup in CloudTrail."
    return f" All of them have been idle since {shown(since)}.{then}"


def incomplete(options: Collection[str]) -> str:
    """Return that AWS does not end the nodes with what these options set, because parts of it are missing, and what to do."""
    if not options:
        return ""
    what, them = " and ".join(ENDS[option] for option in options), form(len(options), "it", "them")
    return (
        f"Parts of {what} are missing, so AWS does not end the nodes with {them}. To complete {them}, or to remove the rest, run "
        f"{playbook_command('provision')}"
    )


def unread(options: Collection[str], has_nodes: bool) -> str:
    """Return that it is not known whether AWS ends the nodes, or has ended them, with what these options set."""
    what = " and ".join(ENDS[option] for option in sorted(options, key=[*ENDS].index))
    does = "ends" if has_nodes else "has ended"
    return f"Whether AWS {does} the nodes is not known, because this run is not allowed to read {what}." if options else ""


def ended_nodes(lease: Mapping[str, Any] | None, idle: Mapping[str, Any] | None, price: Price | None) -> str:
    """Return why AWS has terminated the nodes of a cluster without nodes, and what to do next, or an empty string if it has not."""
    is_idle = _has_ended_idle(idle, 0)
    if not is_idle and not (lease and lease["seconds"] <= 0):
        return ""
    again = f"run {playbook_command('provision')} -e deeplearning_start_again=true"
    if lease and lease["fixed"] and not is_idle:
        again = f"change deeplearning_lease to a later time, and run {playbook_command('provision')}"
    return f"{node_ends(lease, None, idle, 0)}To start nodes again, {again}\n{deletes_rest(price)}"


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


def removed_ends(removed: Mapping[str, Any], who: str = "") -> str:
    """Return what a run removes of that which ends the nodes. `removed` is `removed_ends` in the result of the module `cluster`.

    `who` is the run for people who do not see its output.
    """
    what = _removed(removed)
    ends, missing = " and ".join(what.values()), " and ".join(what)
    rests, told = " and ".join(ENDS[option] for option in removed["rests"]), list[str]()
    if ends and removed["done"]:
        told.append(f"{who or 'This run'} has removed {ends}, because the definition does not set {missing}.")
    elif ends:
        told.append(f"With this definition, provision removes {ends}, because it does not set {missing}.")
    if rests:
        told.append(f"Parts of {rests} were missing already, so AWS did not end the nodes with the rest.")
    if removed["endless"]:
        told.append(f"The nodes {'now' if removed['done'] else 'then'} run, and cost money, until somebody terminates them.")
    return " ".join(told)


def _removed(removed: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run removes as a whole, by the variables that set it."""
    lease, idle, topic = removed["lease"], removed["idle"], removed["topic"]
    does = "the end of" if idle and idle["then"] == TERMINATE else "the notification about"
    what = {
        "deeplearning_lease": lease and f"the lease that ends at {utc(lease['end'])}",
        "deeplearning_idle_after": idle and f"{does} nodes that have been idle for {duration(idle['seconds'])}",
        "deeplearning_notify_topic": topic and f"the messages to {topic}",
    }
    return {option: told for option, told in what.items() if told}


def deletes_rest(price: Price | None) -> str:
    """Return how to delete the rest of a cluster whose nodes AWS has terminated, and what the rest costs, if that is known."""
    after = prices.without_nodes(price) if price else None
    costs = f"costs {prices.per_hour(after)}" if after and prices.is_known(after) else "continues to cost money"
    return f"To delete the rest of the cluster, which {costs}, run {playbook_command('destroy')}"


def utc(text: str) -> str:
    """Return a time such as 2026-12-01T18:00:00Z for people."""
    return f"{text[:16].replace('T', ' ')} UTC"
