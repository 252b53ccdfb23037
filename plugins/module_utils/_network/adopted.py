# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""A network that somebody else owns: what of it a definition names, and what it offers. Only reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Mapping

from .._aws import Cloud
from .._plan.resources import Address, Found
from ..unit import Request
from .definition import ANYWHERE, VPC, subnet
from .resources import security_group_properties, subnet_properties, vpc_properties

SIDES = ("public", "private")
GROUPS = ("nodes", "ssh", "storage")
WAYS_OUT = ("NatGatewayId", "TransitGatewayId", "NetworkInterfaceId", "InstanceId", "LocalGatewayId", "CoreNetworkArn")


def read(request: Request, own: Sequence[Found]) -> list[Found]:
    """What the definition adopts, under the addresses that the cluster's own resources would have.

    What does not exist is left out, and so is a second subnet of a zone: the validators speak of it. A definition that does not name
    the VPC, such as one that only deletes, finds it by the cluster's own security groups.
    """
    cloud = request.cloud
    own_groups = (item for item in own if item.address.kind == "security_group")
    vpc_id = request.options.get("vpc_id") or next((item.properties["vpc"] for item in own_groups), None)
    found: dict[Address, Found] = {}
    for item in vpcs(cloud, vpc_id):
        found[VPC] = Found(VPC, item["VpcId"], vpc_properties(cloud, item), adopted=True)
    for side in SIDES:
        for item in subnets(cloud, subnet_ids(request, side)):
            address = subnet(side, item["AvailabilityZone"])
            free = {"free": item["AvailableIpAddressCount"]}
            found.setdefault(address, Found(address, item["SubnetId"], subnet_properties(cloud, item), free, adopted=True))
    described = {item["GroupId"]: item for item in groups(cloud, group_ids(request).values())}
    for name, group_id in group_ids(request).items():
        if group_id in described:
            address = Address("security_group", name)
            found[address] = Found(address, group_id, security_group_properties(cloud, described[group_id]), adopted=True)
    return list(found.values())


def subnet_ids(request: Request, side: str) -> list[str]:
    """The ids of the subnets that the definition names for a side, C(public) or C(private)."""
    return request.options.get(f"{side}_subnet_ids") or []


def group_ids(request: Request) -> dict[str, str]:
    """The ids of the security groups that the definition names, by what they are for."""
    named = request.options.get("security_group_ids") or {}
    return {name: named[name] for name in GROUPS if named.get(name)}


# What AWS says of it. Filters take ids that do not exist, or cannot.


def vpcs(cloud: Cloud, vpc_id: str | None) -> list[dict[str, Any]]:
    return _described(cloud, "describe_vpcs", "Vpcs", "vpc-id", [vpc_id] if vpc_id else [])


def subnets(cloud: Cloud, ids: Iterable[str]) -> list[dict[str, Any]]:
    return _described(cloud, "describe_subnets", "Subnets", "subnet-id", ids)


def groups(cloud: Cloud, ids: Iterable[str]) -> list[dict[str, Any]]:
    return _described(cloud, "describe_security_groups", "SecurityGroups", "group-id", ids)


def endpoints(cloud: Cloud, vpc_id: str) -> list[dict[str, Any]]:
    """The endpoints of a VPC that work or soon will."""
    found = _described(cloud, "describe_vpc_endpoints", "VpcEndpoints", "vpc-id", [vpc_id])
    return [item for item in found if item["State"].lower() in ("pending", "available")]


def route_table(cloud: Cloud, vpc_id: str, subnet_id: str) -> dict[str, Any]:
    """The table that routes a subnet: the one it is tied to, else the VPC's main one."""
    tables = _described(cloud, "describe_route_tables", "RouteTables", "vpc-id", [vpc_id])
    tied = [table for table in tables if any(item.get("SubnetId") == subnet_id for item in table["Associations"])]
    main = [table for table in tables if any(item.get("Main") for item in table["Associations"])]
    return next(iter([*tied, *main]), {"RouteTableId": "", "Routes": []})


def _described(cloud: Cloud, operation: str, key: str, name: str, values: Iterable[str]) -> list[dict[str, Any]]:
    ids = sorted(set(values))
    return cloud.facts("ec2", operation, key, Filters=[{"Name": name, "Values": ids}]) if ids else []


# Pure


def leads_out(table: Mapping[str, Any]) -> bool:
    """Whether hosts without a public address get out of the VPC by this table. What a prefix list holds is not asked."""
    return any(any(route.get(name) for name in WAYS_OUT) or _goes_to(route, "vgw-", "vpce-") for route in _wide_routes(table))


def leads_to_the_internet(table: Mapping[str, Any]) -> bool:
    """Whether hosts with a public address are reached from the internet by this table."""
    return any(_goes_to(route, "igw-", "vpce-") for route in _wide_routes(table))


def _goes_to(route: Mapping[str, Any], *prefixes: str) -> bool:
    """A default route may lead to the endpoint of a firewall; a prefix list to one is the way to S3 or DynamoDB."""
    gateway = str(route.get("GatewayId", ""))
    return gateway.startswith(prefixes) and not (gateway.startswith("vpce-") and "DestinationPrefixListId" in route)


def _wide_routes(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        route
        for route in table["Routes"]
        if route.get("State") != "blackhole" and (route.get("DestinationCidrBlock") == ANYWHERE or "DestinationPrefixListId" in route)
    ]
