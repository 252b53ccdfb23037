# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The internet gateway of a VPC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Mapping

from ..client import AwsClient
from ..plan.resources import Address, Found
from .tagged import Properties, network_kind, read_tagged, tag_specifications, update_tags


def read(cloud: AwsClient) -> Iterator[Found]:
    return read_tagged(cloud, _found, "describe_internet_gateways", ("InternetGateways", "InternetGatewayId"))


def _found(cloud: AwsClient, key: str, gateway: Mapping[str, Any]) -> Found:
    vpc = next((item["VpcId"] for item in gateway.get("Attachments", [])), None)
    return Found(
        Address("internet_gateway", key), gateway["InternetGatewayId"], {"vpc": vpc, "tags": cloud.comparable_tags(gateway["Tags"])}
    )


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    gateway = cloud.create("ec2", "create_internet_gateway", TagSpecifications=tag_specifications("internet-gateway", properties["tags"]))[
        "InternetGateway"
    ]
    found = Found(address, gateway["InternetGatewayId"], {**properties, "vpc": None})
    _update(cloud, found, properties, frozenset({"vpc"}))
    return found


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    if "vpc" in changed:
        if found.properties["vpc"]:
            cloud.ec2.detach_internet_gateway(InternetGatewayId=found.id, VpcId=found.properties["vpc"])
        cloud.once_visible(cloud.ec2.attach_internet_gateway, InternetGatewayId=found.id, VpcId=properties["vpc"])
    if "tags" in changed:
        update_tags(cloud, found, properties)


def _delete(cloud: AwsClient, found: Found) -> None:
    if found.properties["vpc"]:
        cloud.once_unused(cloud.ec2.detach_internet_gateway, InternetGatewayId=found.id, VpcId=found.properties["vpc"])
    cloud.once_unused(cloud.ec2.delete_internet_gateway, InternetGatewayId=found.id)


KIND = network_kind(
    "internet_gateway",
    _create,
    _delete,
    update=_update,
    updatable=("vpc",),
    deleted_after=("auto_scaling_group", "elastic_ip", "nat_gateway"),
)
