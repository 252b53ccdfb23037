# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Subnets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Mapping

from ..client import AwsClient
from ..plan.resources import Address, Found
from . import leftovers
from .tagged import Properties, network_kind, read_tagged, tag_specifications


def read(cloud: AwsClient) -> Iterator[Found]:
    return read_tagged(cloud, _found, "describe_subnets", ("Subnets", "SubnetId"))


def _found(cloud: AwsClient, key: str, subnet: Mapping[str, Any]) -> Found:
    return Found(Address("subnet", key), subnet["SubnetId"], subnet_properties(cloud, subnet))


def subnet_properties(cloud: AwsClient, subnet: Mapping[str, Any]) -> Properties:
    return {
        "vpc": subnet["VpcId"],
        "cidr": subnet.get("CidrBlock"),  # None for an IPv6-only subnet
        "zone": subnet["AvailabilityZone"],
        "tags": cloud.comparable_tags(subnet.get("Tags", [])),
    }


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    subnet = cloud.create(
        "ec2",
        "create_subnet",
        VpcId=properties["vpc"],
        CidrBlock=properties["cidr"],
        AvailabilityZone=properties["zone"],
        TagSpecifications=tag_specifications("subnet", properties["tags"]),
    )["Subnet"]
    return Found(address, subnet["SubnetId"], properties)


def _delete(cloud: AwsClient, found: Found) -> None:
    leftovers.delete(cloud, cloud.ec2.delete_subnet, ("subnet-id", found.id), found.properties["vpc"], SubnetId=found.id)


KIND = network_kind(
    "subnet",
    _create,
    _delete,
    deleted_after=("auto_scaling_group", "nat_gateway", "vpc_endpoint", "guardduty_endpoint"),
)
