# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Route tables, with their routes and subnets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Mapping
from uuid import uuid4

from ..client import AwsClient
from ..plan.resources import Address, Found
from .tagged import Properties, network_kind, read_tagged, tag_specifications, update_tags


def read(cloud: AwsClient) -> Iterator[Found]:
    return read_tagged(cloud, _found, "describe_route_tables", ("RouteTables", "RouteTableId"))


def _found(cloud: AwsClient, key: str, table: Mapping[str, Any]) -> Found:
    associations = {item["SubnetId"]: item["RouteTableAssociationId"] for item in table["Associations"] if "SubnetId" in item}
    return Found(
        Address("route_table", key),
        table["RouteTableId"],
        {
            "vpc": table["VpcId"],
            "routes": frozenset(_comparable_routes(table["Routes"])),
            "subnets": frozenset(associations),
            "tags": cloud.comparable_tags(table["Tags"]),
        },
        {"associations": associations},
    )


def _comparable_routes(routes: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the destination and target of each route, except the routes that AWS manages: the local route and gateway endpoint routes."""
    for route in routes:
        target = route.get("NatGatewayId") or route.get("GatewayId")
        if target and target != "local" and "DestinationCidrBlock" in route:
            yield route["DestinationCidrBlock"], target


def _route_target(target: str) -> dict[str, str]:
    return {"NatGatewayId" if target.startswith("nat-") else "GatewayId": target}


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    table = cloud.once_visible(
        cloud.ec2.create_route_table,
        VpcId=properties["vpc"],
        ClientToken=str(uuid4()),  # every attempt uses the same token
        TagSpecifications=tag_specifications("route-table", properties["tags"]),
    )["RouteTable"]
    cloud.created.add(table["RouteTableId"])
    found = Found(address, table["RouteTableId"], {**properties, "routes": frozenset(), "subnets": frozenset()}, {"associations": {}})
    _update(cloud, found, properties, frozenset({"routes", "subnets"}))
    return found


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    table = {"RouteTableId": found.id}
    if "routes" in changed:
        before, after = dict(found.properties["routes"]), dict(properties["routes"])
        for destination in before.keys() - after.keys():
            cloud.ec2.delete_route(DestinationCidrBlock=destination, **table)
        for destination, target in after.items():
            if before.get(destination) != target:
                call = cloud.ec2.replace_route if destination in before else cloud.ec2.create_route
                cloud.once_visible(call, DestinationCidrBlock=destination, **_route_target(target), **table)
    if "subnets" in changed:
        for subnet in found.properties["subnets"] - properties["subnets"]:
            cloud.ec2.disassociate_route_table(AssociationId=found.attributes["associations"][subnet])
        for subnet in properties["subnets"] - found.properties["subnets"]:
            _associate(cloud, subnet, found.id)
    if "tags" in changed:
        update_tags(cloud, found, properties)


def _associate(cloud: AwsClient, subnet: str, table: str) -> None:
    """Associate a subnet with a route table. A single call replaces an existing association, so that the subnet always has a route."""
    routed = [{"Name": "association.subnet-id", "Values": [subnet]}]
    tables = cloud.retrieve("ec2", "describe_route_tables", "RouteTables", Filters=routed)
    associations = (item for each in tables for item in each["Associations"])
    before = next((item["RouteTableAssociationId"] for item in associations if item.get("SubnetId") == subnet), None)
    if before:
        cloud.once_visible(cloud.ec2.replace_route_table_association, AssociationId=before, RouteTableId=table)
    else:
        cloud.once_visible(cloud.ec2.associate_route_table, SubnetId=subnet, RouteTableId=table)


def _delete(cloud: AwsClient, found: Found) -> None:
    for association in found.attributes["associations"].values():
        cloud.once_unused(cloud.ec2.disassociate_route_table, AssociationId=association)
    cloud.once_unused(cloud.ec2.delete_route_table, RouteTableId=found.id)


KIND = network_kind(
    "route_table",
    _create,
    _delete,
    update=_update,
    updatable=("routes", "subnets"),
    deleted_after=("vpc_endpoint",),
)
