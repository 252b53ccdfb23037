# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for `alternatives` and the other capacity options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from ..._words import plural
from ..client import AwsClient
from ..component import Alternative, Request
from ..instances import group_of
from ..message_parts import P
from ..network.zones import available, described_reservation, name_advice, offering, zones
from ..node_group.capacity import BLOCK, RESERVATION, SPOT, alternatives, choices, least_workers, managed_groups, may_replace_nodes
from ..node_group.definition import clustered, nodes
from ..node_group.launch_and_termination import ALIVE
from ..node_names import MASTER, numbers
from ..plan.resources import Found
from ..pricing.estimate import spot_prices
from ..tags import NODES_COMPONENT
from ..validator import Level, Validator

COMING = ("assessing", "delayed", "payment-pending", "pending", "scheduled")
NOTICE, ULTRASERVER_NOTICE = timedelta(minutes=30), timedelta(minutes=60)
ULTRASERVERS = "p6e-"
# The tenancy of nodes. Instances run only in reservations with the same tenancy.
TENANCY = "default"
# EC2 accepts neither exponents nor the special values of floating-point numbers.
PRICE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")


class WorkerMinimum(Validator):
    name = "worker_minimum"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        least, count = request.options["worker_minimum"], request.options["worker_count"]
        if least is not None and count and not 1 <= least <= count:
            yield f"{P}worker_minimum: {least} is not valid. Specify a number from 1 to {count} ({P}worker_count)."


class AlternativesOffered(Validator):
    """Checks that the instance type of each alternative is offered in at least one of its zones.

    Other validators check the option `instance_type`.
    """

    name = "alternatives"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, options = request.cloud, request.options
        zone_names = set(zones(request, found)) if options["instance_type"] else set()
        for number, item in enumerate(options["alternatives"], start=1):
            instance_type, zone = item.get("instance_type"), item.get("zone")
            if zone and zone not in available(cloud):
                yield f"{P}alternatives: entry {number} specifies {_other_zone(cloud, zone)}"
                continue
            if zone and zone_names and zone not in zone_names:
                yield f"{P}alternatives: entry {number} specifies {zone}, which is not a zone of the cluster. Add it to {P}zones."
                continue
            wanted = {zone} if zone else zone_names
            if instance_type and not (offered := offering(cloud, instance_type)) & wanted:
                where = f"It is offered in {', '.join(sorted(offered))}." if offered else name_advice(cloud, instance_type)
                yield f"{P}alternatives: {instance_type} (entry {number}) is not offered in {', '.join(sorted(wanted))}. {where}"


class Market(Validator):
    """Checks the options that depend on `market`."""

    name = "market"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        first = {name: options[name] for name in ("market", "spot_max_price", "capacity_reservation_id")}
        if first["capacity_reservation_id"] and first["market"] not in (RESERVATION, BLOCK):
            yield f"{P}market: {first['market']} does not use {P}capacity_reservation_id. Set {P}market to {RESERVATION} or {BLOCK}."
        for more in ({}, *options["alternatives"]):
            item = {**first, **{name: value for name, value in more.items() if value}}
            if item["market"] == BLOCK:
                yield from _check_block(options, item["capacity_reservation_id"])
            if item["market"] == SPOT and item["spot_max_price"] and not _is_price(item["spot_max_price"]):
                yield f"{P}spot_max_price: '{item['spot_max_price']}' is not a price. Specify US dollars per hour, for example 12.50."


class SpotMaxPrice(Validator):
    """Checks that AWS would launch nodes at the present price. Other validators check whether the maximum is a price."""

    name = "spot_max_price"
    level = Level.WARNING
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not request.options["instance_type"] or not request.options["prices"]:
            return
        messages = [_price_above(request.cloud, alternative) for alternative in choices(request, found)]
        if all(messages):
            yield from dict.fromkeys(message for message in messages if message)


def _price_above(cloud: AwsClient, alternative: Alternative) -> str:
    """Return that no zone has a Spot price within the maximum price, or an empty string, also if a price is not known."""
    most, zone_names = alternative.spot_max_price or "", alternative.zones
    known = spot_prices(cloud, alternative.instance_type, zone_names) if alternative.market == SPOT and _is_price(most) else []
    if len(known) < len(zone_names) or min(known) <= float(most):
        return ""
    return (
        f"{P}spot_max_price: a Spot Instance of type {alternative.instance_type} in {', '.join(zone_names)} costs {min(known):.3f} USD per "
        f"hour at present, more than {most}. AWS launches nodes when the price has fallen. To launch them now, remove this option, or set "
        "it higher."
    )


def _check_block(options: Mapping[str, Any], reservation: str | None) -> Iterator[str]:
    if not reservation:
        yield f"{P}capacity_reservation_id: missing. Specify the ID of the Capacity Block."
    if clustered(options, reserved=True):
        option = "placement_group" if options["placement_group"] else "placement"
        yield f"{P}{option}: {options[option]} cannot be used in a Capacity Block, which determines the placement. Remove this option."


class CapacityReservation(Validator):
    """Checks that the reservation is active and matches the nodes. Other validators check whether instance types and zones exist."""

    name = "capacity_reservation"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not request.options["instance_type"]:
            return
        for alternative in alternatives(request, found):
            if not alternative.capacity_reservation:
                continue
            name = f"{P}capacity_reservation_id: {alternative.capacity_reservation}"
            described = described_reservation(request.cloud, alternative.capacity_reservation)
            if described is None:
                yield f"{name} does not exist in {request.cloud.region}. Specify the ID of a reservation or Capacity Block in this region."
            elif described["AvailabilityZone"] not in available(request.cloud):
                yield f"{name} is in {_other_zone(request.cloud, described['AvailabilityZone'])}"
            else:
                yield from (f"{name} {problem}" for problem in _mismatch(described, alternative, request.options["placement_group"]))


class ReservedInstances(Validator):
    """Checks that the reserved capacity of at least one alternative is sufficient.

    The nodes of this cluster that a run may replace count as available. Other validators check whether a reservation matches the nodes.
    """

    name = "reserved_instances"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not request.options["instance_type"] or request.options["worker_count"] is None:
            return
        messages = [_shortfall(request, found, alternative) for alternative in choices(request, found)]
        if all(messages):
            yield from dict.fromkeys(message for message in messages if message)


def _shortfall(request: Request, found: Sequence[Found], alternative: Alternative) -> str | None:
    """Return a message if the reserved capacity is too small, or None if it is sufficient, unknown or not used."""
    if alternative.market not in (RESERVATION, BLOCK):
        return None
    reservations = _active_reservations(request.cloud, alternative)
    if alternative.capacity_reservation and not reservations:
        return None
    available, total = (sum(item[f"{which}InstanceCount"] for item in reservations) for which in ("Available", "Total"))
    replaces = may_replace_nodes(request, found)
    needed = _needed_reserved(request, () if replaces else found)
    if replaces:
        available += _own_instances(request.cloud, reservations)
    if needed <= available:
        return None
    where = f"open reservations for {alternative.instance_type} in {', '.join(alternative.zones)} have"
    return (
        f"{P}capacity_reservation_id: {f'{alternative.capacity_reservation} has' if alternative.capacity_reservation else where} "
        f"{available} of {total} instances available for this cluster, but {plural(needed, 'node is', 'nodes are')} needed. "
        f"Launch fewer nodes ({P}worker_count or {P}worker_minimum), or use a larger reservation."
    )


def _active_reservations(cloud: AwsClient, alternative: Alternative) -> list[Mapping[str, Any]]:
    """Return the active reservations that an alternative uses: the specified one, or all open ones that match."""
    if alternative.capacity_reservation:
        described = described_reservation(cloud, alternative.capacity_reservation)
        return [described] if described and described["State"] == "active" else []
    described_all = cloud.retrieve_once("ec2", "describe_capacity_reservations", "CapacityReservations")
    return [
        item
        for item in described_all
        if item["State"] == "active"
        and item.get("InstanceMatchCriteria") == "open"
        and item["InstanceType"] == alternative.instance_type
        and item.get("AvailabilityZone") in alternative.zones
        and item.get("Tenancy", TENANCY) == TENANCY
    ]


def _needed_reserved(request: Request, kept: Sequence[Found]) -> int:
    """Return how many nodes it takes in reserved capacity, beside those of `kept`. With `master_market`, the master is not one of them."""
    groups = [group for group in managed_groups(request) if group != MASTER or not request.options["master_market"]]
    least = sum(len(numbers(group, least_workers(request))) for group in groups)
    return least - sum(len(item.properties["numbers"]) for item in kept if item.address in map(nodes, groups))


def _own_instances(cloud: AwsClient, reservations: Sequence[Mapping[str, Any]]) -> int:
    ids = {item["CapacityReservationId"] for item in reservations}
    states = {"Name": "instance-state-name", "Values": list(ALIVE)}
    described = cloud.retrieve_once("ec2", "describe_instances", "Reservations", Filters=[states])
    instances = [instance for item in described for instance in item["Instances"]]
    return sum(item.get("CapacityReservationId") in ids and group_of(cloud.cluster, item) is not None for item in instances)


def _other_zone(cloud: AwsClient, zone: str) -> str:
    """Return the end of a message about a zone in which nodes cannot be launched."""
    return (
        f"{zone}, which is not an Availability Zone of {cloud.region}. Nodes in Local Zones are not supported. "
        f"Choose from {', '.join(sorted(available(cloud)))}."
    )


def _mismatch(described: Mapping[str, Any], alternative: Alternative, placement_group: str | None) -> Iterator[str]:
    """Yield the reasons why a reservation is not active or does not match the nodes."""
    if described["State"] in COMING:
        starts = _time(described.get("StartDate"))
        yield f"is {described['State']} and starts at {starts}. Run again after that time, or specify an active reservation."
    elif described["State"] != "active":
        yield f"is {described['State']}. Specify an active reservation."
    elif _end_of_nodes(described) <= datetime.now(timezone.utc):
        yield (
            f"ends at {_time(described['EndDate'])}, and EC2 stops launching nodes in it shortly before that time. "
            "Specify a Capacity Block that ends later."
        )
    elif described["InstanceType"] != alternative.instance_type:
        yield (
            f"is for {described['InstanceType']}, not {alternative.instance_type}. "
            "Use the same instance type for the reservation and the nodes."
        )
    elif described.get("Tenancy", TENANCY) != TENANCY:
        tenancy = described["Tenancy"]
        yield f"is for instances with the tenancy {tenancy}, but nodes have the tenancy {TENANCY}. Specify another reservation."
    elif (described.get("ReservationType") == "capacity-block") != (alternative.market == BLOCK):
        kind = BLOCK if alternative.market != BLOCK else RESERVATION
        yield f"is a {kind}, but {P}market is {alternative.market}. Set {P}market to {kind}."
    elif described.get("PlacementGroupArn") and _name_in(described["PlacementGroupArn"]) != placement_group:
        group = _name_in(described["PlacementGroupArn"])
        yield f"is only for nodes in the placement group {group}. Set {P}placement_group: {group}, or specify another reservation."


def _name_in(arn: str) -> str:
    return arn.rpartition("/")[2]


class BlockEnd(Validator):
    """Warns that EC2 will terminate the nodes in a Capacity Block. Another validator checks whether the block is valid."""

    name = "capacity_block_end"
    level = Level.WARNING
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        blocks = {
            alternative.capacity_reservation
            for alternative in alternatives(request, found)
            if alternative.market == BLOCK and alternative.capacity_reservation
        }
        for block in sorted(blocks):
            described = described_reservation(request.cloud, block)
            if described and described["State"] == "active" and described.get("EndDate"):
                yield (
                    f"{P}capacity_reservation_id: Capacity Block {block} ends at {_time(described['EndDate'])}, and EC2 begins to "
                    f"terminate its nodes at {_time(_end_of_nodes(described))}. Make sure that jobs finish before then, "
                    "and delete the cluster afterwards. The data is kept."
                )


def _end_of_nodes(reservation: Mapping[str, Any]) -> datetime:
    """Return the time at which EC2 begins to terminate the nodes of a Capacity Block. For other reservations, return `datetime.max`.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-how.html
    """
    if reservation.get("ReservationType") != BLOCK or not reservation.get("EndDate"):
        return datetime.max.replace(tzinfo=timezone.utc)
    end: datetime = reservation["EndDate"]
    return end - (ULTRASERVER_NOTICE if reservation["InstanceType"].startswith(ULTRASERVERS) else NOTICE)


def _time(moment: datetime | None) -> str:
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC" if moment else "a time that EC2 does not report"


def _is_price(text: str) -> bool:
    return PRICE.fullmatch(text) is not None and float(text) > 0
