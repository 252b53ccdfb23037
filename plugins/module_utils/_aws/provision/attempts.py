# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Plans and applies changes for `state: present`. The run tries one alternative after another until AWS has sufficient capacity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from ..client import ClusterError
from ..component import Request
from ..lease.component import NODES_LEASE
from ..lease.definition import LEASE
from ..message_parts import P
from ..node_group import capacity, launch_and_termination
from ..node_group.component import NODE_GROUP
from ..node_group.definition import launch_template
from ..node_group.launch_and_termination import Shortage
from ..node_group.launch_templates import predict_versions
from ..plan.errors import ApplyError
from ..plan.planning import Change, make_plan
from ..plan.resources import Found, Ref, Wanted
from . import report
from .apply import converge
from .components import KINDS
from .context import Run
from .plan import plan_changes, plan_end_of_nodes, predict
from .price import Forbidden, forbidden_price
from .read import read_all
from .removed_ends import removed_ends


def provision(run: Run) -> NoReturn:
    """Converge the cluster with the first alternative for which AWS has sufficient capacity, and exit the module."""
    alternatives = capacity.choices(run.request, run.before) if run.manages_nodes else [None]
    request, shortages, applied = run.request, list[str](), list[Change]()
    found: Sequence[Found] = run.before
    for alternative in alternatives:
        request, found, plan, deferred = _plan_attempt(run, replace(request, chosen=alternative), found)
        refusal = _outdated_refusal(run, deferred)
        launched = alternative and capacity.launched(request, found, capacity.managed_groups(request)[-1])
        forbidden = forbidden_price(run, plan, found, launched)
        if not applied:
            refuse(run, plan, forbidden)
        if run.module.check_mode:
            report.succeed(run, plan, found=predict(plan, found), deferred=deferred, alternative=launched, refusal=refusal)
        if forbidden:  # an earlier alternative has failed, and its nodes are gone
            shortages.append(f"{alternative}: {P}price_warning: with this alternative, {forbidden.reason}.")
            continue
        _announce(request, plan)
        try:
            changes, after = converge(run, partial(_plan_now, run, request), found)
        except ApplyError as error:
            applied += error.applied
            if not isinstance(error.cause, Shortage):
                report.fail_applying(run, error, applied)
            shortages.append(f"{alternative}: {error.cause}")
            # The failure message contains the last shortage
            if alternative is not alternatives[-1]:
                request.cloud.progress(shortages[-1])
                request, found = _without_nodes(run, request, found, shortages)
        else:
            report.succeed(run, [*applied, *changes], found=after, deferred=deferred, alternative=launched)
    _restore_groups(run, shortages)
    report.fail_without_capacity(run, shortages, applied)


def refuse(run: Run, plan: Sequence[Change], forbidden: Forbidden | None) -> None:
    """Exit the module if the definition forbids the price after the plan, or that it removes what ends the nodes."""
    if forbidden:
        report.fail_price(run, forbidden)
    removed = removed_ends(run, plan) if run.request.options.get("keep_ends") else {}
    if removed:
        report.fail_removed_ends(run, removed)


def _plan_attempt(run: Run, request: Request, found: Sequence[Found]) -> tuple[Request, Sequence[Found], list[Change], list[Change]]:
    """Return the request, resources, plan and deferred changes of an attempt.

    If an unfinished run has left nodes that do not match the attempt, terminate these nodes first.
    """
    plan, deferred = plan_changes(run, request, found)
    if run.request.options["wait"] and capacity.would_mix_nodes(plan, found):
        request, found = _without_nodes(run, request, found)
        plan, deferred = plan_changes(run, request, found)
    return request, found, plan, deferred


def _outdated_refusal(run: Run, deferred: Sequence[Change]) -> str:
    """Refuse a run that leaves outdated nodes although the options do not allow them. In check mode, only return the reason, if any."""
    message = report.describe_outdated(run.request.cloud.cluster, deferred)
    # Only runs that manage nodes have this option.
    if not message or run.request.options["allow_outdated_nodes"]:
        return ""
    if not run.module.check_mode:
        raise ClusterError(message)
    return message


def _plan_now(run: Run, request: Request, found: Sequence[Found]) -> list[Change]:
    return plan_changes(run, request, found)[0]


def _announce(request: Request, plan: Sequence[Change]) -> None:
    if any(_launches(change) for change in plan):
        request.cloud.progress("From now on, AWS launches nodes even if this run is interrupted. The next run finds these nodes.")


def _launches(change: Change) -> bool:
    more = {*change.after.get("numbers", ())} - {*change.before.get("numbers", ())}
    return change.address.kind == "nodes" and bool(more or change.after.keys() & {"group", "outdated", "unhealthy"})


def _without_nodes(run: Run, request: Request, found: Sequence[Found], shortages: Sequence[str] = ()) -> tuple[Request, list[Found]]:
    """Terminate the nodes of an unfinished run or a failed attempt. Return the new request and the remaining resources.

    Wait until the nodes are terminated, because the next attempt may need the capacity, quota and placement group that they occupy.
    """
    if run.module.check_mode:
        return request, predict(plan_end_of_nodes(found), found)
    _change_groups(run, plan_end_of_nodes, shortages)
    request.cloud.wait_until(
        "the nodes of the unfinished run to terminate",
        lambda: not launch_and_termination.leaving(request.cloud),
        timeout=max(request.cloud.wait_timeout, launch_and_termination.END_TIMEOUT),
        pause=launch_and_termination.END_PAUSE,
    )
    return replace(request, past_activities=capacity.activity_ids(request.cloud)), read_all(request)


def _restore_groups(run: Run, shortages: Sequence[str]) -> None:
    """Restore the Auto Scaling groups and launch templates to their state before the run. Delete new ones, and a new lease."""
    kinds = {"auto_scaling_group", "launch_template", LEASE.kind} - {item.address.kind for item in run.before if item.address == LEASE}
    properties = {item.address: item.properties for item in run.before if item.address.kind in kinds}
    for address in properties:
        template = launch_template(address.key)
        if address.kind == "auto_scaling_group" and template in properties:
            # A new version of the template restores the former content
            properties[address] = {**properties[address], "template_version": Ref(template, "version")}
    wanted = [Wanted(address, each) for address, each in properties.items()]
    make = partial(make_plan, wanted, kinds=KINDS, keep=lambda item: item.address.kind not in kinds)
    _change_groups(run, lambda found: make(predict_versions(make(found), found, replacing=True)), shortages)


def _change_groups(run: Run, make: Callable[[Sequence[Found]], list[Change]], shortages: Sequence[str]) -> None:
    try:
        nodes = NODE_GROUP.read(run.request, ())
        converge(run, make, [*nodes, *NODES_LEASE.read(run.request, nodes)])
    except ApplyError as error:
        report.fail_applying(run, error, error.applied, "".join(f" Earlier attempt: {shortage}" for shortage in shortages))
