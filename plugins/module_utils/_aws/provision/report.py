# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Last stage: exit the module with its result, such as applied changes, deferred changes and costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from ..._words import form
from ..client import ClusterError, Interrupted
from ..component import Alternative
from ..error_messages import denial_advice, fail
from ..idle import component as idle
from ..idle.definition import TERMINATE
from ..lease import component as lease
from ..message_parts import RUN_OPTIONS, P
from ..node_group.definition import auto_scaling_group, desired_workers, nodes
from ..node_names import WORKERS, group_name, node_name
from ..options.registry import OPTIONS
from ..plan.errors import ApplyError
from ..plan.planning import Action, Change
from ..plan.resources import KNOWN_AFTER_APPLY, Found
from ..tags import EMR_COMPONENT
from ..validator import Finding, Level
from .components import ALL_COMPONENTS, billed_name
from .context import Run
from .price import Forbidden, price_after, price_of_billed
from .removed_ends import remaining_ends, removed_ends

# The maximum number of nodes, and the maximum length of a value, in a message about outdated nodes.
SHOWN_NODES, SHOWN_LENGTH = 5, 64


def succeed(
    run: Run,
    changes: Sequence[Change],
    *,
    found: Sequence[Found],
    deferred: Sequence[Change] = (),
    alternative: Alternative | None = None,
    kept: Sequence[str] = (),
    left: Sequence[str] = (),
    refusal: str = "",
) -> NoReturn:
    """Exit the module with its result.

    `found` contains the resources after the changes. The changes in `deferred` are not applied until a run is allowed to replace nodes. In
    check mode, `refusal` states why a run outside check mode would be refused.
    """
    plan, before = (changes, run.before) if run.module.check_mode else ((), found)
    price = price_after(run, plan, before, alternative)
    if refusal:
        run.module.warn(f"Without --check, this run fails before it changes anything. {refusal}")
    elif deferred:
        run.module.warn(_describe_deferred(deferred))
    degraded = _degraded(run, found)
    if degraded:
        run.module.warn(
            f"The cluster has {degraded['workers']} of {degraded['wanted']} workers, which {P}worker_minimum allows. "
            f"{degraded['reason'] or ''} To try to launch the missing workers, set {P}grow: true."
        )
    run.module.exit_json(
        changed=bool(changes),
        changes=[{**change.describe(), "hourly": price and price.difference(change.address)} for change in changes],
        diff=[change.difference() for change in changes],
        price=price and price.describe(),
        lease=lease.describe(run.request, found),
        idle=idle.describe(run.request, found),
        removed_ends=removed_ends(run, changes, done=True),
        deferred=[change.describe() for change in deferred],
        resources=_ids(found),
        alternative=alternative and str(alternative),
        degraded=degraded,
        kept=list(kept),
        leftovers=list(left),
    )
    raise AssertionError("exit_json returned")


def fail_applying(run: Run, error: ApplyError, applied: Sequence[Change], more: str = "") -> NoReturn:
    """Fail the module with a message that contains the failed change, advice, the text in `more`, and the applied changes."""
    if run.request.cloud.interruption.is_set():
        raise Interrupted from error
    half = any(change is error.change for change in applied) and error.change.action is Action.DELETE
    advice = f"{' It is partly deleted, and no longer works.' if half else ''}{denial_advice(error.cause)}"
    message = ClusterError(f"{str(error).rstrip('.')}.{advice}{more} {_describe_applied(applied)}{_costs(run, applied)}")
    fail(run.module, message, **_done(run, applied))


def fail_price(run: Run, forbidden: Forbidden) -> NoReturn:
    """Fail the module because the definition forbids the price of the cluster after the run."""
    check = "emr with --check" if run.request.manages(EMR_COMPONENT) else "validate"
    message = (
        f"{P}price_warning: this run was stopped because after it, {forbidden.reason}. Nothing was changed. To see what costs how much, "
        f"run the playbook {check} with {P}enforce_price_warning: false. {forbidden.advice}"
    )
    _refuse(run, "price_warning", message, price_exceeded=forbidden.reason)


def fail_removed_ends(run: Run, removed: Mapping[str, Any]) -> NoReturn:
    """Fail the module because the run must not remove what ends the nodes."""
    options = {"lease": "lease", "idle": "idle_after", "topic": "notify_topic"}
    lacks = [*(option for name, option in options.items() if removed[name]), *removed["rests"]]
    missing = " and ".join(f"the option {P}{option}" for option in lacks)
    message = (
        f"{P}keep_ends: the definition lacks {missing}, which the cluster has. Nothing was changed. Add what is missing, or, to remove it "
        f"from the cluster, set {P}keep_ends: false."
    )
    _refuse(run, "keep_ends", message, removed_ends=removed)


def _refuse(run: Run, option: str, message: str, **result: Any) -> NoReturn:
    """Fail the module as a validator does, because an option forbids the plan."""
    finding = Finding(option, Level.ERROR, message)
    fail(run.module, ClusterError(message), valid=False, findings=[finding.as_dict()], **result)


def fail_without_capacity(run: Run, shortages: Sequence[str], applied: Sequence[Change]) -> NoReturn:
    """Fail the module after the last alternative has failed and the groups have been restored."""
    message = (
        f"AWS has insufficient capacity for the nodes. {' '.join(shortages)} The Auto Scaling groups were restored to their former state."
    )
    bill = _bill(run, applied)
    if bill:
        message += f"{bill} Run again later, or delete these resources with {_deletion(run)}"
    fail(run.module, ClusterError(message), **_done(run, applied))


def fail_interrupted(run: Run) -> NoReturn:
    """Fail the module with a message about the applied changes, the nodes that AWS is still launching, and the costs."""
    cloud, applied = run.request.cloud, run.applied
    message = f"Interrupted. {_describe_applied(applied)}{_costs(run, applied)}"
    cloud.progress(f"Cluster {cloud.cluster}: {message}")
    fail(run.module, ClusterError(message), **_done(run, applied))


def _done(run: Run, applied: Sequence[Change]) -> dict[str, Any]:
    return {
        "changed": bool(applied),
        "changes": [change.describe() for change in applied],
        "removed_ends": removed_ends(run, applied, done=True),
    }


def _degraded(run: Run, found: Iterable[Found]) -> dict[str, Any] | None:
    """Return the actual and the desired number of workers, and the reason for the difference. Return None if no workers are missing."""
    known = {item.address: item for item in found if item.id != KNOWN_AFTER_APPLY}
    workers, group, wanted = known.get(nodes(WORKERS)), known.get(auto_scaling_group(WORKERS)), desired_workers(run.request.options)
    if not run.request.present or workers is None or group is None or not wanted:
        return None
    # Without `wait`, the size of the group is the number of workers that will be launched
    count: int = len(workers.properties["numbers"]) if run.request.options["wait"] else group.properties["size"]
    return None if count >= wanted else {"workers": count, "wanted": wanted, "reason": workers.attributes.get("shortage")}


def _ids(found: Iterable[Found]) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for item in sorted(found, key=lambda item: item.address):
        result.setdefault(item.address.kind, {})[item.address.key] = item.id
    return result


def _describe_applied(applied: Iterable[Change]) -> str:
    done = ", ".join(f"{change.action.value} {change.address}" for change in applied) or "none"
    return f"Applied changes: {done}. The next run continues from this state."


def _describe_deferred(deferred: Iterable[Change]) -> str:
    """Return sentences that state which nodes need to be replaced and why."""
    templates = _differences(deferred)
    outdated, unhealthy = _numbers(deferred, "outdated"), _numbers(deferred, "unhealthy")
    parts = []
    if templates or outdated:
        what = f"The launch template changes ({', '.join(templates)})" if templates else "The launch template has changed"
        parts.append(f"{what}, so nodes {', '.join(outdated)} need to be replaced." if outdated else f"{what}.")
        parts += ["Until then, new nodes are launched with the former template, too."] if templates else []
    if unhealthy:
        parts.append(f"EC2 status checks have failed on nodes {', '.join(unhealthy)}, so these nodes need to be replaced.")
    return f"{' '.join(parts)} These changes are deferred. To apply them, set {P}replace_nodes: true and run again while no job is running."


def describe_outdated(cluster: str, deferred: Sequence[Change]) -> str:
    """Return sentences that state which nodes stay outdated, how they differ, and what to do.

    Return an empty string if there are no such nodes.
    """
    groups = {change.address.key: change.before.get("outdated", ()) for change in deferred if change.address.kind == "nodes"}
    outdated = sorted((number, group) for group, numbers in groups.items() for number in numbers)
    if not outdated:
        return ""
    names = [node_name(cluster, group, number) for number, group in outdated]
    differences = _differences(deferred)
    more = f" and {len(names) - SHOWN_NODES} more" if len(names) > SHOWN_NODES else ""
    return (
        f"{', '.join(names[:SHOWN_NODES])}{more} {form(len(names), 'differs', 'differ')} from the definition: "
        f"{', '.join(differences) or 'launched from an older launch template'}. To replace outdated nodes while no job is running, add "
        "-e deeplearning_replace_nodes=true\nTo use the nodes as they are, restore the definition or add "
        "-e deeplearning_allow_outdated_nodes=true"
    )


def _differences(deferred: Iterable[Change]) -> list[str]:
    """Return phrases that describe how the launch templates change, each once."""
    templates = [change for change in deferred if change.address.kind == "launch_template"]
    pairs = [(name, change.before.get(name), value) for change in templates for name, value in sorted(change.after.items())]
    return list(dict.fromkeys(_difference(*pair) for pair in pairs))


def _difference(name: str, before: Any, after: Any) -> str:
    """Return a phrase that describes a difference between the nodes and the definition. Only short values of simple types are included."""
    simple = all(isinstance(value, (str, int)) and len(str(value)) <= SHOWN_LENGTH for value in (before, after))
    shown = f"{P}{name}" if any(option.name == name for option in OPTIONS) else name
    return f"{shown} is {after!r}, but the nodes have {before!r}" if simple else shown


def _numbers(deferred: Iterable[Change], name: str) -> list[str]:
    nodes_before = [change.before for change in deferred if change.address.kind == "nodes"]
    return [str(number) for number in sorted({number for before in nodes_before for number in before.get(name, ())})]


def _costs(run: Run, applied: Sequence[Change]) -> str:
    """Return sentences about costs that continue after an incomplete run, including advice. Return an empty string if there are none."""
    if not run.request.present:
        return _costs_of_rest(run.request.cloud.cluster, run.before, applied)
    costs = _launching(run.request.cloud.cluster, run.before, applied) + _bill(run, applied)
    return f"{costs}{_ends_of_costs(run, applied)} To stop these costs, delete the cluster with {_deletion(run)}" if costs else ""


def _ends_of_costs(run: Run, applied: Sequence[Change]) -> str:
    """Return when AWS still terminates the nodes after an incomplete run, or an empty string."""
    left, when = remaining_ends(run, applied), list[str]()
    known, idle_end = lease.describe(run.request, left), idle.describe(run.request, left)
    if known and known["seconds"] > 0:
        when.append(f"at {known['end'][:16].replace('T', ' ')} UTC")
    if idle_end and idle_end["then"] == TERMINATE:
        when.append("when they are idle")
    return f" AWS still terminates the nodes {' or '.join(when)}." if when else ""


def _costs_of_rest(cluster: str, before: Sequence[Found], applied: Sequence[Change]) -> str:
    """Return sentences about what an incomplete deletion has left, or an empty string if the rest costs nothing."""
    gone = {change.address for change in applied if change.action is Action.DELETE}
    left = [item for item in before if item.address not in gone and not item.adopted]
    # A group whose nodes are deleted launches no more nodes.
    groups = [item for item in left if nodes(item.address.key) not in gone]
    billed = list(filter(None, (billed_name(item.address) for item in sorted(left, key=lambda item: item.address))))
    bill = f" These resources still exist and cost money: {', '.join(billed)}." if billed else ""
    costs = _launching(cluster, groups, ()) + bill
    return f"{costs} To continue the deletion, run the same command again." if costs else ""


def _deletion(run: Run) -> str:
    """Return instructions for deleting the resources that the module has created. Users run other modules in their own playbooks."""
    if run.components == ALL_COMPONENTS:
        how = f"ansible-playbook {RUN_OPTIONS}deeplearning.cluster.destroy (add -e deeplearning_delete_data=true"
    else:
        how = f"{P}state: absent (add {P}delete_data: true"
    return f"{how} to delete the file systems too)."


def _launching(cluster: str, before: Iterable[Found], applied: Iterable[Change]) -> str:
    """Return a sentence about Auto Scaling groups that launch nodes even after the run has ended, or an empty string if there are none."""
    there = {item.address for item in before} | {change.address for change in applied if change.action is Action.CREATE}
    names = [group_name(cluster, address.key) for address in sorted(there) if address.kind == "auto_scaling_group"]
    return f" AWS continues to launch nodes in {' and '.join(names)}, and these nodes cost money." if names else ""


def _bill(run: Run, applied: Iterable[Change]) -> str:
    """Return sentences about resources that cost money although no nodes use them, or an empty string if there are no such resources."""
    made = {change.address for change in applied if change.action is Action.CREATE}
    if not any(item.address.kind == "auto_scaling_group" for item in run.before):
        made |= {item.address for item in run.before if not item.adopted}
    billed = {address: billed_name(address) for address in sorted(made) if billed_name(address)}
    if not billed:
        return ""
    return f" These resources still exist and cost money: {', '.join(billed.values())}.{price_of_billed(run, applied, billed)}"
