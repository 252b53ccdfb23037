# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The Availability Zones of a cluster."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from ..client import AwsClient, ClientError, ClusterError
from ..component import Request
from ..error_codes import error_code
from ..message_parts import P
from ..plan.resources import Found

NO_RESERVATION = ("InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed")


def zones(request: Request, found: Sequence[Found]) -> list[str]:
    """Return the zones of the cluster.

    If the definition specifies zones, the result contains only those zones. Otherwise, the result contains the zones of the alternatives
    and of the existing network. For a new network, a zone that offers the instance type is added, unless a capacity reservation determines
    the zone.
    """
    cloud, instance_type = request.cloud, request.options.get("instance_type")
    named = request.options.get("zones")
    if named:
        return sorted(set(named))
    existing = {item.properties["zone"] for item in found if item.address.kind == "subnet" and item.address.key.startswith("private-")}
    asked = _of_alternatives(request)
    if existing:
        return sorted(existing | asked)
    if request.options.get("capacity_reservation_id") and asked:
        return sorted(asked)
    offered = available(cloud)
    if instance_type:
        offered &= offering(cloud, instance_type)
    if not offered:
        raise ClusterError(f"{P}instance_type: {instance_type} is not offered in {cloud.region}. Choose another type or another region.")
    return sorted({min(offered)} | asked)


def _of_alternatives(request: Request) -> set[str]:
    options = request.options
    candidates = [options, *options.get("alternatives", [])]
    reservations = {item["capacity_reservation_id"] for item in candidates if item.get("capacity_reservation_id")}
    reserved = [described_reservation(request.cloud, reservation) for reservation in sorted(reservations)]
    return {item["zone"] for item in candidates if item.get("zone")} | {item["AvailabilityZone"] for item in reserved if item}


def described_reservation(cloud: AwsClient, reservation: str) -> dict[str, Any] | None:
    try:
        # EC2 has no filter for reservation IDs
        found = cloud.retrieve_once("ec2", "describe_capacity_reservations", "CapacityReservations", CapacityReservationIds=[reservation])
    except ClientError as error:
        if error_code(error) not in NO_RESERVATION:
            raise
        return None
    return next(iter(found), None)


def available(cloud: AwsClient) -> set[str]:
    """Return the Availability Zones of the region. Local Zones and Wavelength Zones are omitted because they lack required services."""
    filters = [{"Name": "zone-type", "Values": ["availability-zone"]}]
    return {zone["ZoneName"] for zone in cloud.retrieve_once("ec2", "describe_availability_zones", "AvailabilityZones", Filters=filters)}


def offering(cloud: AwsClient, instance_type: str) -> set[str]:
    """Return the zones that offer an instance type. The result is empty if the type does not exist."""
    filters = [{"Name": "instance-type", "Values": [instance_type]}]
    offerings = cloud.retrieve_once(
        "ec2", "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="availability-zone", Filters=filters
    )
    return {item["Location"] for item in offerings}


def name_advice(cloud: AwsClient, instance_type: str) -> str:
    """Return advice for an instance type name that might be misspelled: similar instance types that the region offers, if any."""
    offerings = cloud.retrieve_once("ec2", "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="region")
    names = {item["InstanceType"] for item in offerings}
    similar = difflib.get_close_matches(instance_type, sorted(names), n=3, cutoff=0.7)
    return f"Did you mean {' or '.join(similar)}?" if similar else "Check the name."
