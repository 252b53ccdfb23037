# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""In which availability zones a cluster lies."""

from __future__ import annotations

from collections.abc import Sequence

from .._aws import Cloud, CloudError
from .._plan.resources import Found
from ..unit import Request


def zones(request: Request, found: Sequence[Found]) -> list[str]:
    """The zones that the user names, else those that the network has, else one that offers the instance type."""
    cloud, instance_type = request.cloud, request.options.get("instance_type")
    named = request.options.get("zones")
    if named:
        return sorted(set(named))
    existing = {item.properties["zone"] for item in found if item.address.kind == "subnet" and item.address.key.startswith("private-")}
    if existing:
        return sorted(existing)
    offered = available(cloud)
    if instance_type:
        offered &= offering(cloud, instance_type)
    if not offered:
        raise CloudError(f"instance_type: {instance_type} is not offered in {cloud.region}.")
    return [min(offered)]


def available(cloud: Cloud) -> set[str]:
    """The zones of the region; local and wavelength zones lack half of what a cluster needs."""
    filters = [{"Name": "zone-type", "Values": ["availability-zone"]}]
    return {zone["ZoneName"] for zone in cloud.facts("ec2", "describe_availability_zones", "AvailabilityZones", Filters=filters)}


def offering(cloud: Cloud, instance_type: str) -> set[str]:
    """The zones that offer an instance type; none if there is no such type."""
    filters = [{"Name": "instance-type", "Values": [instance_type]}]
    offerings = cloud.facts(
        "ec2", "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="availability-zone", Filters=filters
    )
    return {item["Location"] for item in offerings}
