"""Checks whether EC2 admits a launch: quotas, prices, reservations, capacity of the zone, free addresses."""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.subnets import Subnet

from ..capacity import ON_DEMAND, SPOT
from . import quotas, spot
from .capacity_reservations import CapacityReservation, reserved_places
from .instance_type_offerings import check_room, check_usage, offered
from .network_interfaces import is_addressless
from .placement_groups import check_zone


def market(data: dict[str, Any]) -> str:
    """Return the market that launch data specifies: on-demand, spot, or capacity-block."""
    return str(data.get("InstanceMarketOptions", {}).get("MarketType") or ON_DEMAND)


def admit(backend: EC2Backend, data: dict[str, Any], subnet: Subnet, count: int) -> list[CapacityReservation | None]:
    """For each instance, return the Capacity Reservation that it uses, or None. Raises the EC2 error that prevents the launch."""
    instance_type, zone, kind = data["InstanceType"], subnet.availability_zone, market(data)
    if instance_type not in offered(backend.region_name, zone):
        raise EC2ClientError(
            "Unsupported",
            f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone ({zone}). "
            "Please retry your request by not specifying an Availability Zone or choosing another one.",
        )
    check_usage(instance_type, kind)
    check_zone(backend, data.get("Placement", {}).get("GroupName"), zone)
    reserved = reserved_places(backend, data, kind, zone, count)
    _check_addresses(subnet, data, count)
    quotas.check_vcpus(backend, instance_type, kind, count)
    if kind == SPOT:
        spot.check_price(instance_type, data["InstanceMarketOptions"].get("SpotOptions", {}))
    outside = count - len(reserved)
    check_room(instance_type, zone, kind, outside)
    return [*reserved, *[None] * outside]


def largest_count(backend: EC2Backend, data: dict[str, Any], subnet: Subnet, least: int, wanted: int) -> int:
    """Return the largest number of instances between `least` and `wanted` that EC2 admits, or `least` if EC2 admits no such number."""
    for count in range(wanted, least, -1):
        try:
            admit(backend, data, subnet, count)
        except EC2ClientError:
            continue
        return count
    return least


def _check_addresses(subnet: Any, data: dict[str, Any], count: int) -> None:
    interfaces = data.get("NetworkInterfaces") or [{}]
    needed = sum(1 for each in interfaces if not is_addressless(each) and not each.get("NetworkInterfaceId"))
    if needed * count > subnet.available_ip_address_count:
        raise EC2ClientError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{subnet.id}' to satisfy the requested number of instances.",
        )
