"""Instance types that a zone offers, their markets, and their capacity."""

from __future__ import annotations

from functools import cache

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from ..capacity import MESSAGES
from ..context import CLOUD, instances
from .availability_zones import REGIONS

# moto lacks the offerings of some partitions. Their regions offer what us-east-1 offers, in each zone of the same letter.
KNOWN = "us-east-1"
for _kind, _regions in INSTANCE_TYPE_OFFERINGS.items():
    for _region in REGIONS:
        if _region not in _regions:
            _regions[_region] = [{**each, "Location": each["Location"].replace(KNOWN, _region)} for each in _regions[KNOWN]]


def offered(region: str, zone: str) -> frozenset[str]:
    """Return the instance types that a zone offers."""
    return _by_zone(region).get(zone, frozenset())


def check_usage(instance_type: str, market: str) -> None:
    """Raise `Unsupported` for a type that the market does not offer."""
    if market not in INSTANCE_TYPES[instance_type]["SupportedUsageClasses"]:
        raise unsupported()


def check_room(instance_type: str, zone: str, market: str, count: int) -> None:
    """Raise `InsufficientInstanceCapacity` unless the zone has capacity for `count` more instances outside of reservations."""
    live = (
        (each.instance_type, each.availability_zone, each.market)
        for each in instances()
        if each.holds_capacity and not each.capacity_reservation_id
    )
    if count and not CLOUD.capacity.has_room(instance_type, zone, market, count, live):
        raise EC2ClientError("InsufficientInstanceCapacity", MESSAGES[market].format(type=instance_type, zone=zone))


def unsupported() -> EC2ClientError:
    return EC2ClientError(
        "Unsupported",
        "The requested configuration is currently not supported. Please check the documentation for supported configurations.",
    )


@cache
def _by_zone(region: str) -> dict[str, frozenset[str]]:
    zones: dict[str, set[str]] = {}
    for offering in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, []):
        zones.setdefault(offering["Location"], set()).add(offering["InstanceType"])
    return {zone: frozenset(types) for zone, types in zones.items()}
