# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""VPCs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Mapping

from ..client import AwsClient
from ..plan.resources import Address, Found
from . import leftovers
from .tagged import Properties, network_kind, read_tagged, tag_specifications, update_tags


def read(cloud: AwsClient) -> Iterator[Found]:
    return read_tagged(cloud, _found, "describe_vpcs", ("Vpcs", "VpcId"))


def _found(cloud: AwsClient, key: str, vpc: Mapping[str, Any]) -> Found:
    return Found(Address("vpc", key), vpc["VpcId"], vpc_properties(cloud, vpc))


def vpc_properties(cloud: AwsClient, vpc: Mapping[str, Any]) -> Properties:
    def attribute(name: str) -> bool:
        field = name[0].upper() + name[1:]
        return bool(cloud.ec2.describe_vpc_attribute(VpcId=vpc["VpcId"], Attribute=name)[field]["Value"])

    with ThreadPoolExecutor(2) as pool:
        support, hostnames = pool.map(attribute, ("enableDnsSupport", "enableDnsHostnames"))
    tags = cloud.comparable_tags(vpc.get("Tags", []))
    return {"cidr": vpc["CidrBlock"], "dns_support": support, "dns_hostnames": hostnames, "tags": tags}


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    vpc = cloud.create("ec2", "create_vpc", CidrBlock=properties["cidr"], TagSpecifications=tag_specifications("vpc", properties["tags"]))[
        "Vpc"
    ]
    found = Found(address, vpc["VpcId"], properties)
    _update(cloud, found, properties, frozenset({"dns_support", "dns_hostnames"}))
    return found


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    # AWS accepts only one attribute per call
    for name, field in (("dns_support", "EnableDnsSupport"), ("dns_hostnames", "EnableDnsHostnames")):
        if name in changed:
            cloud.once_visible(cloud.ec2.modify_vpc_attribute, VpcId=found.id, **{field: {"Value": properties[name]}})
    if "tags" in changed:
        update_tags(cloud, found, properties)


def _delete(cloud: AwsClient, found: Found) -> None:
    leftovers.delete(cloud, cloud.ec2.delete_vpc, ("vpc-id", found.id), found.id, VpcId=found.id)


OF_GUARDDUTY = ("guardduty_endpoint", "guardduty_security_group")
KIND = network_kind(
    "vpc",
    _create,
    _delete,
    update=_update,
    updatable=("dns_support", "dns_hostnames"),
    deleted_after=("internet_gateway", "subnet", "route_table", "security_group", "vpc_endpoint", "nat_gateway", *OF_GUARDDUTY),
)
