"""Availability Zones, and a Local Zone that the account has enabled. Many services and instance types exist only in Availability Zones."""

from __future__ import annotations

from typing import Any

from botocore.loaders import Loader
from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend, Zone
from moto.ec2.responses import EC2Response

from ..override import override

LOCAL_ZONE = "local-zone"
DALLAS = Zone(name="us-east-1-dfw-2a", region_name="us-east-1", zone_id="use1-dfw2-az1", zone_type=LOCAL_ZONE)

moto_describe_zones = RegionsAndZonesBackend.describe_availability_zones
RegionsAndZonesBackend.zones["us-east-1"].append(DALLAS)
# The regions of all partitions, some of which moto lacks
REGIONS = [
    region
    for partition in Loader().load_data("partitions")["partitions"]
    for region in partition["regions"]
    if not region.endswith("-global")
]
for _region in REGIONS:
    _zones = [Zone(f"{_region}{letter}", _region, f"{_region}-az{number}") for number, letter in enumerate("abc", 1)]
    RegionsAndZonesBackend.zones.setdefault(_region, _zones)


def is_availability_zone(zone: Zone) -> bool:
    return zone.zone_type == "availability-zone"


def region_of(zone: str) -> str:
    """Return the region of a zone. Raises `KeyError` for an unknown zone."""
    return {each.name: each.region_name for zones in RegionsAndZonesBackend.zones.values() for each in zones}[zone]


@override(RegionsAndZonesBackend)
def describe_availability_zones(self: EC2Backend, *arguments: Any, **options: Any) -> list[Zone]:
    """Return only Availability Zones, because moto uses the result for default subnets and file systems."""
    return [zone for zone in moto_describe_zones(self, *arguments, **options) if is_availability_zone(zone)]


def _describe_availability_zones(self: EC2Response) -> ActionResult:
    """Return all zones that the account has enabled, including Local Zones."""
    self.error_on_dryrun()
    names, ids = self._get_param("ZoneNames", []), self._get_param("ZoneIds", [])
    zones = moto_describe_zones(self.ec2_backend, self._filters_from_querystring(), zone_names=names, zone_ids=ids)
    return ActionResult({"AvailabilityZones": [{**vars(zone), **_group(zone)} for zone in zones]})


EC2Response.describe_availability_zones = _describe_availability_zones  # type: ignore[method-assign]


def _group(zone: Zone) -> dict[str, str]:
    """Return the fields of a zone that depend on its type: its name, its group, whether the account has enabled it, and the network border
    group of a Local Zone.
    """
    if is_availability_zone(zone):
        return {"ZoneName": zone.name, "GroupName": f"{zone.region_name}-zg-1", "OptInStatus": "opt-in-not-required"}
    group = zone.name.rstrip("abc")
    return {"ZoneName": zone.name, "GroupName": group, "NetworkBorderGroup": group, "OptInStatus": "opted-in"}
