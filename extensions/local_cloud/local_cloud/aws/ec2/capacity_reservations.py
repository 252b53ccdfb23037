"""Capacity Reservations and Capacity Blocks, which moto lacks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2 import utils
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response
from moto.ec2.utils import generic_filter, random_resource_id

from ..capacity import CAPACITY_BLOCK, ON_DEMAND
from ..context import CLOUD
from ..override import override
from . import quotas, spot
from .instance_type_offerings import check_room, check_usage, offered, unsupported

utils.EC2_RESOURCE_TO_PREFIX["capacity-reservation"] = "cr"
utils.EC2_PREFIX_TO_RESOURCE["cr"] = "capacity-reservation"

# The minimum time from the offer of a Capacity Block to the start of the block.
NOTICE = timedelta(minutes=30)
IDENTIFIER = re.compile(r"cr-(?:[0-9a-f]{8}|[0-9a-f]{17})")


class CapacityReservation(TaggedEC2Resource):
    """Capacity for instances of one type in one zone."""

    ephemeral_storage = False

    def __init__(self, backend: EC2Backend, instance_type: str, zone: str, count: int, kind: str = "default") -> None:
        self.ec2_backend = backend
        self.id = self.capacity_reservation_id = f"cr-{random_resource_id(17)}"
        self.owner_id = backend.account_id
        self.capacity_reservation_arn = (
            f"arn:{backend.partition}:ec2:{backend.region_name}:{backend.account_id}:capacity-reservation/{self.id}"
        )
        self.reservation_type = kind
        self.instance_type = instance_type
        self.availability_zone = zone
        self.total_instance_count = count
        self.instance_platform = "Linux/UNIX"
        self.tenancy = "default"
        self.instance_match_criteria = "targeted" if kind == CAPACITY_BLOCK else "open"
        self.ebs_optimized = False
        self.create_date = self.start_date = CLOUD.utcnow()
        self.end_date: datetime | None = None
        self.client_token: str | None = None
        self.placement_group_arn: str | None = None
        self.cancelled = False
        capacity_reservations(backend)[self.id] = self

    @property
    def tags(self) -> list[dict[str, str]]:
        return self.get_tags()

    @property
    def is_block(self) -> bool:
        return self.reservation_type == CAPACITY_BLOCK

    @property
    def end_date_type(self) -> str:
        return "limited" if self.end_date else "unlimited"

    @property
    def state(self) -> str:
        if self.cancelled:
            return "cancelled"
        if self.end_date and CLOUD.utcnow() >= self.end_date:
            return "expired"
        return "scheduled" if CLOUD.utcnow() < self.start_date else "active"

    @property
    def takes_instances(self) -> bool:
        """Return whether instances can run in the reservation. Instances of a Capacity Block are terminated some time before its end."""
        late = self.is_block and self.end_date is not None and CLOUD.utcnow() >= self.end_date - timedelta(seconds=CLOUD.delays.block_end)
        return self.state == "active" and not late

    @property
    def used(self) -> list[Any]:
        """Return the instances that run in the reservation."""
        everything: list[Any] = self.ec2_backend.all_instances()
        return [each for each in everything if each.holds_capacity and each.capacity_reservation_id == self.id]

    @property
    def available_instance_count(self) -> int:
        return self.total_instance_count - len(self.used) if self.takes_instances else 0

    def fits(self, instance_type: str, zone: str) -> bool:
        """Return whether the reservation is for instances of the type in the zone, with the default tenancy."""
        return (self.instance_type, self.availability_zone, self.tenancy) == (instance_type, zone, "default")

    def end(self) -> None:
        """Terminate the instances of a Capacity Block that is about to end."""
        for instance in self.used:
            instance.lose("The Capacity Block has ended")


def capacity_reservations(backend: EC2Backend) -> dict[str, CapacityReservation]:
    """Return the reservations of an account and region by ID."""
    found: dict[str, CapacityReservation] = backend.__dict__.setdefault("capacity_reservations", {})
    return found


def find_capacity_reservation(backend: EC2Backend, identifier: str) -> CapacityReservation:
    """Return the reservation with this ID. Raises `InvalidCapacityReservationId.NotFound` or `.Malformed`."""
    if not IDENTIFIER.fullmatch(identifier):
        raise EC2ClientError("InvalidCapacityReservationId.Malformed", f"The capacity reservation ID '{identifier}' is malformed")
    try:
        return capacity_reservations(backend)[identifier]
    except KeyError:
        raise EC2ClientError(
            "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{identifier}' does not exist"
        ) from None


def reserve_block(
    backend: EC2Backend, instance_type: str, zone: str, count: int, start: datetime, duration: timedelta
) -> CapacityReservation:
    """Create a Capacity Block for the given time, and return it."""
    block = CapacityReservation(backend, instance_type, zone, count, CAPACITY_BLOCK)
    block.start_date, block.end_date = start, start + duration
    CLOUD.clock.after(max((block.end_date - CLOUD.utcnow()).total_seconds() - CLOUD.delays.block_end, 0), block.end)
    return block


def target(data: dict[str, Any]) -> str | None:
    """Return the ID of the reservation in launch data, or None if there is none. Raises the EC2 error for contradictory data."""
    wanted = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if "CapacityReservationResourceGroupArn" in wanted:
        raise EC2ClientError("UnsupportedOperation", "Resource groups of Capacity Reservations are not available in this account.")
    identifier: str | None = wanted.get("CapacityReservationId")
    if data.get("InstanceMarketOptions", {}).get("MarketType") == CAPACITY_BLOCK and not identifier:
        raise EC2ClientError(
            "InvalidParameterCombination", "The market type capacity-block requires a capacity reservation target in the same request."
        )
    return identifier


def reserved_places(backend: EC2Backend, data: dict[str, Any], market: str, zone: str, count: int) -> list[CapacityReservation]:
    """Return the reservations that `count` instances would use, one per instance.

    If the list is shorter than `count`, the other instances run outside of reservations. Raises the EC2 errors for a target without
    sufficient capacity.
    """
    instance_type, identifier = data["InstanceType"], target(data)
    if identifier:
        return [_targeted(find_capacity_reservation(backend, identifier), instance_type, market, zone, count)] * count
    preference = data.get("CapacityReservationSpecification", {}).get("CapacityReservationPreference", "open")
    if market != ON_DEMAND or preference == "none":
        return []
    found = [
        each
        for each in capacity_reservations(backend).values()
        if each.instance_match_criteria == "open" and each.fits(instance_type, zone)
        for _ in range(each.available_instance_count)
    ][:count]
    if preference == "capacity-reservations-only" and len(found) < count:
        raise _exceeded()
    return found


def _targeted(reservation: CapacityReservation, instance_type: str, market: str, zone: str, count: int) -> CapacityReservation:
    if market != (CAPACITY_BLOCK if reservation.is_block else ON_DEMAND):
        raise EC2ClientError(
            "InvalidParameterCombination",
            f"The capacity reservation '{reservation.id}' is of the type {reservation.reservation_type}, "
            f"which is not compatible with the market type {market}.",
        )
    if reservation.state == "scheduled":
        raise EC2ClientError("InvalidCapacityReservationState.PendingActivation", "Your Capacity Block is not active yet.")
    if not reservation.fits(instance_type, zone) or reservation.available_instance_count < count:
        raise _exceeded()
    return reservation


def _exceeded() -> EC2ClientError:
    return EC2ClientError(
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    )


@override(EC2Response)
def create_capacity_reservation(self: EC2Response) -> ActionResult:
    """Reserve capacity in the zone. A request with a known client token returns the earlier reservation."""
    backend, token = self.ec2_backend, self._get_param("ClientToken")
    for each in capacity_reservations(backend).values():
        if token and each.client_token == token:
            return ActionResult({"CapacityReservation": each})
    instance_type, zone = self._get_param("InstanceType"), self._get_param("AvailabilityZone")
    count = self._get_int_param("InstanceCount")
    if instance_type not in INSTANCE_TYPES:
        raise EC2ClientError("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
    if not zone:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter AvailabilityZone")
    if instance_type not in offered(backend.region_name, zone):
        raise unsupported()
    tags = self._parse_tag_specification("capacity-reservation").get("capacity-reservation", {})
    end = _end_date(self)
    self.error_on_dryrun()
    quotas.check_vcpus(backend, instance_type, ON_DEMAND, count)
    check_room(instance_type, zone, ON_DEMAND, count)
    reservation = CapacityReservation(backend, instance_type, zone, count)
    reservation.client_token = token
    reservation.placement_group_arn = self._get_param("PlacementGroupArn")
    reservation.instance_platform = self._get_param("InstancePlatform")
    reservation.tenancy = self._get_param("Tenancy") or "default"
    reservation.instance_match_criteria = self._get_param("InstanceMatchCriteria") or "open"
    reservation.ebs_optimized = self._get_bool_param("EbsOptimized", False)
    reservation.end_date = end
    reservation.add_tags(tags)
    return ActionResult({"CapacityReservation": reservation})


@override(EC2Response)
def describe_capacity_reservations(self: EC2Response) -> ActionResult:
    reservations = capacity_reservations(self.ec2_backend)
    identifiers = self._get_param("CapacityReservationIds", []) or list(reservations)
    wanted: list[Any] = [find_capacity_reservation(self.ec2_backend, each) for each in identifiers]
    filters = self._filters_from_querystring()
    return ActionResult({"CapacityReservations": generic_filter(filters, wanted)})


@override(EC2Response)
def modify_capacity_reservation(self: EC2Response) -> ActionResult:
    reservation = _changeable(self)
    count = self._get_int_param("InstanceCount", reservation.total_instance_count)
    if count < len(reservation.used):
        raise EC2ClientError(
            "InvalidParameterValue", f"Value ({count}) for parameter instanceCount is below the {len(reservation.used)} instances in use."
        )
    kind = self._get_param("EndDateType")
    end = _end_date(self) if kind or self._get_param("EndDate") else reservation.end_date
    self.error_on_dryrun()
    if count > reservation.total_instance_count:
        check_room(reservation.instance_type, reservation.availability_zone, ON_DEMAND, count - reservation.total_instance_count)
    reservation.total_instance_count, reservation.end_date = count, end
    reservation.instance_match_criteria = self._get_param("InstanceMatchCriteria") or reservation.instance_match_criteria
    return ActionResult({"Return": True})


@override(EC2Response)
def cancel_capacity_reservation(self: EC2Response) -> ActionResult:
    reservation = _changeable(self)
    self.error_on_dryrun()
    reservation.cancelled = True
    return ActionResult({"Return": True})


@override(EC2Response)
def describe_capacity_block_offerings(self: EC2Response) -> ActionResult:
    """Offer one Capacity Block, with the earliest possible start, in each zone that offers the type."""
    backend, instance_type = self.ec2_backend, self._get_param("InstanceType")
    if instance_type not in INSTANCE_TYPES:
        raise EC2ClientError("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
    check_usage(instance_type, CAPACITY_BLOCK)
    count, hours = self._get_int_param("InstanceCount", 1), self._get_int_param("CapacityDurationHours")
    start = max(_date(self, "StartDateRange") or CLOUD.utcnow(), CLOUD.utcnow() + NOTICE)
    latest = _date(self, "EndDateRange")
    if latest and start + timedelta(hours=hours) > latest:
        return ActionResult({"CapacityBlockOfferings": []})
    offers = [
        {
            "CapacityBlockOfferingId": f"cb-{random_resource_id(17)}",
            "InstanceType": instance_type,
            "AvailabilityZone": zone.name,
            "InstanceCount": count,
            "StartDate": start,
            "EndDate": start + timedelta(hours=hours),
            "CapacityBlockDurationHours": hours,
            "UpfrontFee": f"{spot.price(instance_type) * count * hours:.2f}",
            "CurrencyCode": "USD",
            "Tenancy": "default",
        }
        for zone in backend.describe_availability_zones()
        if instance_type in offered(backend.region_name, zone.name)
    ]
    _offers(backend).update({each["CapacityBlockOfferingId"]: each for each in offers})
    return ActionResult({"CapacityBlockOfferings": offers})


@override(EC2Response)
def purchase_capacity_block(self: EC2Response) -> ActionResult:
    identifier = self._get_param("CapacityBlockOfferingId")
    if identifier not in _offers(self.ec2_backend):
        raise EC2ClientError("InvalidCapacityBlockOfferingIdNotFound", f"The Capacity Block offering ID '{identifier}' does not exist")
    tags = self._parse_tag_specification("capacity-reservation").get("capacity-reservation", {})
    self.error_on_dryrun()
    offer = _offers(self.ec2_backend).pop(identifier)
    block = reserve_block(
        self.ec2_backend,
        offer["InstanceType"],
        offer["AvailabilityZone"],
        offer["InstanceCount"],
        offer["StartDate"],
        timedelta(hours=offer["CapacityBlockDurationHours"]),
    )
    block.instance_platform = self._get_param("InstancePlatform")
    block.add_tags(tags)
    return ActionResult({"CapacityReservation": block})


def _offers(backend: EC2Backend) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = backend.__dict__.setdefault("capacity_block_offers", {})
    return found


def _changeable(response: EC2Response) -> CapacityReservation:
    reservation = find_capacity_reservation(response.ec2_backend, response._get_param("CapacityReservationId"))
    if reservation.is_block:
        raise EC2ClientError("UnsupportedOperation", "You can't modify or cancel a Capacity Block.")
    return reservation


def _end_date(response: EC2Response) -> datetime | None:
    """Return the end date in a request, or None. Raises the EC2 errors for an end date that contradicts the end date type."""
    end, limited = _date(response, "EndDate"), response._get_param("EndDateType") == "limited"
    if limited and not end:
        raise EC2ClientError("MissingParameter", "You must specify an end date when the end date type is limited.")
    if end and not limited:
        raise EC2ClientError("InvalidParameterCombination", "You can specify an end date only when the end date type is limited.")
    return end


def _date(response: EC2Response, parameter: str) -> datetime | None:
    """Return a time in the request as a naive datetime in UTC, the form that moto uses."""
    value: datetime | None = response._get_param(parameter)
    return value and value.astimezone(UTC).replace(tzinfo=None)
