# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The capacity policy, which is an ordered list of candidates for launching a cluster's nodes.

The functions in this file do not change anything in AWS.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Mapping

from ..client import AwsClient
from ..component import Alternative, Request
from ..instances import BLOCK, RESERVATION, SPOT
from ..network.zones import described_reservation, zones
from ..node_names import MASTER, NODE_TYPES, WORKERS, numbers
from ..plan.planning import Change, Policy
from ..plan.resources import Found
from . import auto_scaling_groups
from .definition import auto_scaling_group, desired_workers, in_one_zone, launch_template, nodes
from .launch_and_termination import activities


def without_zeros(price: str) -> str:
    """Return a price without zeros at its end. AWS may return a price with another number of zeros."""
    return price.rstrip("0").rstrip(".") if "." in price else price


def alternatives(request: Request, found: Sequence[Found]) -> list[Alternative]:
    """Return all candidates in the order of the definition. If the nodes use a placement group or EFA, each candidate has only one zone."""
    options = request.options
    one_zone = in_one_zone(options) or (options["placement"] == "auto" and has_nodes_in_placement_group(request, found))
    result = []
    for item in ({}, *options["alternatives"]):
        chosen = {**options, **{name: value for name, value in item.items() if value is not None}}
        market = chosen["market"]
        reservation = chosen["capacity_reservation_id"] if market in (RESERVATION, BLOCK) else None
        price = chosen["spot_max_price"] if market == SPOT else None
        zone = item.get("zone") or zone_of_reservation(request.cloud, reservation)
        zone_names = (zone,) if zone else tuple(zones(request, found))
        for part in zip(zone_names) if one_zone else [zone_names]:
            result.append(Alternative(chosen["instance_type"], part, market, price, reservation))
    return list(dict.fromkeys(result))


def choices(request: Request, found: Sequence[Found]) -> list[Alternative]:
    """Return the candidates for this run: all candidates for a new cluster, and only the current candidate for a cluster that has nodes."""
    options, every = request.options, alternatives(request, found)
    if not has_nodes(found):
        return every
    return [next((item for item in every if is_in_use(item, found, options["master_market"])), every[0])]


def has_nodes(found: Sequence[Found], groups: Collection[str] = NODE_TYPES) -> bool:
    """Return whether a run has accepted nodes of these groups. Unlike the nodes of an unfinished run, accepted nodes have numbers."""
    return any(item.address.kind == "nodes" and item.address.key in groups and item.properties["numbers"] for item in found)


def suits_placement_group(request: Request, alternative: Alternative, strategies: Collection[str], found: Sequence[Found]) -> bool:
    """Return whether nodes without EFA are in the cluster's own placement group with `placement: auto`.

    `strategies` contains the placement strategies that the instance type supports. A cluster that has nodes keeps its placement, because a
    different placement would require new nodes. Reserved capacity may be spread out.
    """
    if "cluster" not in strategies or alternative.market in (RESERVATION, BLOCK):
        return False
    if has_nodes(found):
        return has_nodes_in_placement_group(request, found)
    return len(alternative.zones) == 1 and desired_workers(request.options) > 0


def has_nodes_in_placement_group(request: Request, found: Sequence[Found]) -> bool:
    """Return whether the cluster has nodes, and launches them in its own placement group."""
    templates = [item.properties for item in found if item.address.kind == "launch_template"]
    return has_nodes(found) and any(template["placement_group"] == request.cloud.cluster for template in templates)


def is_in_use(alternative: Alternative, found: Sequence[Found], master_market: str | None = None) -> bool:
    """Return whether the groups launch nodes with the settings of this candidate. Subnets that the cluster no longer has are ignored.

    If `master_market` is set, the master is launched in that market.
    """
    return zones_in_use(found) <= set(alternative.zones) and all(
        _launches(item.properties, _of_group(item.address.key, alternative, master_market))
        for item in found
        if item.address.kind == "launch_template"
    )


def _of_group(group: str, alternative: Alternative, master_market: str | None) -> Alternative:
    """Return a candidate for the nodes of one group. If `master_market` is set, only the master is in that market."""
    if group != MASTER or not master_market:
        return alternative
    return replace(alternative, market=master_market, spot_max_price=None, capacity_reservation=None)


def launched(request: Request, found: Sequence[Found], group: str) -> Alternative:
    """Return how the run launches nodes of a group: as its launch template says, until the run may replace nodes."""
    alternative, market = request.alternative, request.options["master_market"]
    template = next((item.properties for item in found if item.address == launch_template(group)), None)
    if template is None or may_replace_nodes(request, found) or is_in_use(alternative, found, market):
        return _of_group(group, alternative, market)
    limit, reservation = template["spot_max_price"] or None, template["capacity_reservation"] or None
    return Alternative(template["instance_type"], tuple(sorted(zones_in_use(found))), template["market"], limit, reservation)


def zones_in_use(found: Sequence[Found]) -> set[str]:
    subnets = {subnet for item in found if item.address.kind == "auto_scaling_group" for subnet in item.properties["subnets"]}
    return {item.properties["zone"] for item in found if item.address.kind == "subnet" and item.id in subnets}


def _launches(template: Mapping[str, Any], alternative: Alternative) -> bool:
    wanted = (alternative.instance_type, alternative.market, alternative.capacity_reservation or "")
    return (template["instance_type"], template["market"], template["capacity_reservation"]) == wanted


def would_mix_nodes(plan: Sequence[Change], found: Sequence[Found]) -> bool:
    """Return whether a plan would launch nodes that differ from the nodes of an unfinished run.

    If an earlier run has accepted nodes, the result is false.
    """
    inhabited = {item.address.key: item.attributes["subnets"] for item in found if item.address.kind == "nodes"}

    def launches_others(change: Change) -> bool:
        subnets = inhabited.get(change.address.key)
        if not subnets or change.found is None:
            return False
        if change.address.kind == "launch_template":
            return change.policy is Policy.REPLACE
        return change.address.kind == "auto_scaling_group" and bool(subnets - change.after.get("subnets", subnets))

    return not has_nodes(found) and any(launches_others(change) for change in plan)


def launches_nodes(request: Request, found: Sequence[Found]) -> bool:
    """Return whether this run launches nodes. Nodes of an unfinished run are treated as missing."""
    if request.options["worker_count"] is None or may_replace_nodes(request, found):
        return True
    existing = {item.address: len(item.properties["numbers"]) for item in found if item.address.kind == "nodes"}
    workers = worker_count(request, found)
    return any(existing.get(nodes(group), 0) < len(numbers(group, workers)) for group in managed_groups(request))


def managed_groups(request: Request) -> tuple[str, ...]:
    """Return the groups that this run manages: `master`, `workers` or both."""
    return tuple(group for group in NODE_TYPES if group in request.options.get("components", NODE_TYPES))


def may_replace_nodes(request: Request, found: Sequence[Found]) -> bool:
    return not has_nodes(found) or bool(request.options["replace_nodes"])


def zone_of_reservation(cloud: AwsClient, reservation: str | None) -> str | None:
    """Return the zone of a capacity reservation or Capacity Block, or None if it does not exist."""
    described = described_reservation(cloud, reservation) if reservation else None
    return described["AvailabilityZone"] if described else None


def activity_ids(cloud: AwsClient) -> frozenset[str]:
    """Return the IDs of the newest scaling activities. The next attempt ignores these activities."""
    return frozenset(activity["ActivityId"] for group in auto_scaling_groups.read(cloud) for activity in activities(cloud, group.id))


def worker_count(request: Request, found: Sequence[Found]) -> int:
    """Return the desired number of workers, including spares.

    A cluster that was accepted with fewer workers keeps its size unless `grow` is set.
    """
    wanted = desired_workers(request.options)
    group = next((item for item in found if item.address == auto_scaling_group(WORKERS)), None)
    if group is None or request.options["grow"] or group.attributes["wanted"] != str(wanted):
        return wanted
    size: int = group.properties["size"]
    return size if has_nodes(found, (WORKERS,)) and least_workers(request) <= size < wanted else wanted


def least_workers(request: Request) -> int:
    """Return the minimum number of workers that the cluster needs. By default, all workers and spares are needed.

    If the definition has no workers and no spares, the minimum is 0, and `worker_minimum` has no effect.
    """
    count = desired_workers(request.options)
    return min(request.options["worker_minimum"] or count, count)
