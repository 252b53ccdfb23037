# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads an adopted network: the VPC, subnets and security groups in the definition, and the routes and endpoints of the VPC."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Mapping

from ..client import AwsClient
from ..component import Request
from ..plan.resources import Address, Found
from .definition import ANYWHERE, VPC, SecurityRule, subnet
from .security_groups import security_group_properties
from .subnets import subnet_properties
from .vpc import vpc_properties
from .vpc_endpoints import endpoint_is_gone

SIDES = ("public", "private")
GROUPS = ("nodes", "ssh", "storage")
WAYS_ON = ("TransitGatewayId", "NetworkInterfaceId", "InstanceId", "LocalGatewayId", "CoreNetworkArn")
WAYS_OUT = ("NatGatewayId", *WAYS_ON)
WAYS_TO_OTHER_NETWORKS = ("VpcPeeringConnectionId", *WAYS_ON)


def read(request: Request, own: Sequence[Found]) -> list[Found]:
    """Return the adopted resources. Each adopted resource has the `Address` that the cluster's own resource would have.

    Resources that do not exist are omitted, and so are additional subnets in a zone. Validators report such resources and subnets. If the
    definition does not specify the VPC, for example when a run only deletes the cluster, the VPC of the cluster's own security groups is
    used.
    """
    cloud = request.cloud
    vpc_id = request.options.get("vpc_id") or next((item.properties["vpc"] for item in own if item.address.kind == "security_group"), None)
    found: dict[Address, Found] = {}
    for item in vpcs(cloud, vpc_id):
        blocks = item["CidrBlockAssociationSet"]
        cidrs = {"cidrs": [block["CidrBlock"] for block in blocks if block["CidrBlockState"]["State"] == "associated"]}
        found[VPC] = Found(VPC, item["VpcId"], vpc_properties(cloud, item), cidrs, adopted=True)
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
    """Return the subnet IDs in the definition for `side`, which is `public` or `private`."""
    return request.options.get(f"{side}_subnet_ids") or []


def group_ids(request: Request) -> dict[str, str]:
    named = request.options.get("security_group_ids") or {}
    return {name: named[name] for name in GROUPS if named.get(name)}


def found_subnets(request: Request, found: Sequence[Found], side: str) -> list[Found]:
    """Return the adopted `public` or `private` subnets. Return an empty list if the VPC is the cluster's own VPC or does not exist."""
    vpc = next((item.id for item in found if item.address == VPC), None)
    if not vpc or not request.options["vpc_id"]:
        return []
    usable = [item for item in found if item.adopted and item.address.kind == "subnet" and item.properties["vpc"] == vpc]
    return [item for item in usable if item.address.key.startswith(f"{side}-")]


def cidrs(request: Request, found: Sequence[Found], sides: Iterable[str]) -> list[str]:
    """Return the address ranges of the adopted subnets in `sides`, which contains `public`, `private` or both."""
    return [item.properties["cidr"] for side in sides for item in found_subnets(request, found, side) if item.properties["cidr"]]


def node_cidrs(request: Request, found: Sequence[Found]) -> list[str]:
    return cidrs(request, found, SIDES if request.options["master_public_address"] else ("private",))


# Descriptions from AWS. These functions use filters, because filters accept IDs that do not exist.


def vpcs(cloud: AwsClient, vpc_id: str | None) -> list[dict[str, Any]]:
    return _described(cloud, "describe_vpcs", "Vpcs", "vpc-id", [vpc_id] if vpc_id else [])


def subnets(cloud: AwsClient, ids: Iterable[str]) -> list[dict[str, Any]]:
    return _described(cloud, "describe_subnets", "Subnets", "subnet-id", ids)


def groups(cloud: AwsClient, ids: Iterable[str]) -> list[dict[str, Any]]:
    return _described(cloud, "describe_security_groups", "SecurityGroups", "group-id", ids)


def endpoints(cloud: AwsClient, vpc_id: str) -> list[dict[str, Any]]:
    """Return the VPC's endpoints that are usable, or may become usable, in at least one subnet."""
    found = _described(cloud, "describe_vpc_endpoints", "VpcEndpoints", "vpc-id", [vpc_id])
    return [item for item in found if not endpoint_is_gone(item)]


def route_table(cloud: AwsClient, vpc_id: str, subnet_id: str) -> dict[str, Any]:
    """Return the route table of a subnet: the table that is associated with the subnet or, if there is none, the main table of the VPC.

    Every table has at least the local route. If this account cannot read the table, for example because another account owns the VPC, the
    result has no routes.
    """
    tables = _described(cloud, "describe_route_tables", "RouteTables", "vpc-id", [vpc_id])
    tied = [table for table in tables if any(item.get("SubnetId") == subnet_id for item in table.get("Associations", []))]
    main = [table for table in tables if any(item.get("Main") for item in table.get("Associations", []))]
    return next(iter([*tied, *main]), {"RouteTableId": "", "Routes": []})


def _described(cloud: AwsClient, operation: str, key: str, name: str, values: Iterable[str]) -> list[dict[str, Any]]:
    ids = sorted(set(values))
    return cloud.retrieve_once("ec2", operation, key, Filters=[{"Name": name, "Values": ids}]) if ids else []


# Pure functions. These functions do not read the contents of prefix lists, and assume that an unreadable route table contains the required
# route.


def leads_out(table: Mapping[str, Any]) -> bool:
    """Return whether hosts without a public address can reach the internet through this route table."""
    return _has(table, lambda route: _is_wide(route) and _goes_by(route, WAYS_OUT))


def leads_to_the_internet(table: Mapping[str, Any]) -> bool:
    """Return whether hosts with a public address are reachable from the internet through this route table."""
    return _has(table, lambda route: _is_wide(route) and _goes_to(route, "igw-", "vpce-"))


def leads_to(table: Mapping[str, Any], address: str) -> bool:
    """Return whether hosts can reach an address in another network through this route table."""
    return _has(table, lambda route: _holds(route, address) and _goes_by(route, WAYS_TO_OTHER_NETWORKS))


def _has(table: Mapping[str, Any], suits: Callable[[Mapping[str, Any]], bool]) -> bool:
    routes = table["Routes"]
    return not routes or any(route.get("State") != "blackhole" and suits(route) for route in routes)


def _goes_by(route: Mapping[str, Any], ways: Iterable[str]) -> bool:
    return any(route.get(name) for name in ways) or _goes_to(route, "vgw-", "vpce-")


def _goes_to(route: Mapping[str, Any], *prefixes: str) -> bool:
    """Return whether the ID of a route's target has one of these prefixes. If the target is a gateway endpoint, return False."""
    gateway = str(route.get("GatewayId", ""))
    return gateway.startswith(prefixes) and not (gateway.startswith("vpce-") and "DestinationPrefixListId" in route)


def _is_wide(route: Mapping[str, Any]) -> bool:
    return route.get("DestinationCidrBlock") == ANYWHERE or "DestinationPrefixListId" in route


def _holds(route: Mapping[str, Any], address: str) -> bool:
    destination = route.get("DestinationCidrBlock")
    in_it = destination and ipaddress.IPv4Address(address) in ipaddress.IPv4Network(destination)
    return bool(in_it or "DestinationPrefixListId" in route)


def lets_in(rules: Iterable[SecurityRule], ports: tuple[str, int, int], sources: Collection[str], ranges: Sequence[str]) -> bool:
    """Return whether security group rules allow traffic from one of the sources, or from all of the address ranges."""
    who = {rule[3] for rule in rules if covers(rule, ports)}
    if who & set(sources) or any(source.startswith("pl-") for source in who):
        return True
    allowed = [ipaddress.IPv4Network(source) for source in who if "/" in source and ":" not in source]
    return bool(ranges) and all(any(ipaddress.IPv4Network(cidr).subnet_of(each) for each in allowed) for cidr in ranges)


def covers(rule: SecurityRule, ports: tuple[str, int, int]) -> bool:
    protocol, first, last, _who = rule
    return protocol == "-1" or (protocol == ports[0] and first <= ports[1] and ports[2] <= last)
