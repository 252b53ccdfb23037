# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads and changes the parts of a network. One AWS call per step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Mapping
from uuid import uuid4

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import (
    COMPONENT_TAG,
    KEY_TAG,
    AwsClient,
    ClientError,
    ClusterError,
    error_code,
    tag_dict,
    tag_list,
    together,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.definition import SELF, Rule
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.plan import Kind
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found

NAME = "network"
Properties = Mapping[str, Any]


def read(cloud: AwsClient) -> list[Found]:
    """Everything that is tagged as this cluster's network."""
    readers = (
        _vpcs,
        _internet_gateways,
        _subnets,
        _elastic_ips,
        _nat_gateways,
        _route_tables,
        _security_groups,
        _vpc_endpoints,
    )
    return together([partial(reader, cloud) for reader in readers])


def _described(
    cloud: AwsClient, operation: str, key: str, *filters: Mapping[str, Any], filter_argument: str = "Filters"
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The items of a describe call that belong to this cluster's network, each with its key."""
    for item in cloud.retrieve("ec2", operation, key, **{filter_argument: cloud.filters(*filters)}):
        tags = tag_dict(item.get("Tags", []))
        if tags.get(COMPONENT_TAG) == NAME and KEY_TAG in tags:
            yield tags[KEY_TAG], item


def _specification(resource_type: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": resource_type, "Tags": tag_list(tags)}]


def _update_tags(cloud: AwsClient, found: Found, properties: Properties) -> None:
    cloud.ec2.create_tags(Resources=[found.id], Tags=tag_list(properties["tags"]))


def _update_tags_only(cloud: AwsClient, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    _update_tags(cloud, found, properties)


# VPC


def _vpcs(cloud: AwsClient) -> Iterator[Found]:
    for key, vpc in _described(cloud, "describe_vpcs", "Vpcs"):
        yield Found(Address("vpc", key), vpc["VpcId"], vpc_properties(cloud, vpc))


def vpc_properties(cloud: AwsClient, vpc: Mapping[str, Any]) -> Properties:
    """A VPC as AWS describes it, in comparable form."""

    def attribute(name: str) -> bool:
        field = name[0].upper() + name[1:]
        return bool(cloud.ec2.describe_vpc_attribute(VpcId=vpc["VpcId"], Attribute=name)[field]["Value"])

    with ThreadPoolExecutor(2) as pool:
        support, hostnames = pool.map(attribute, ("enableDnsSupport", "enableDnsHostnames"))
    tags = cloud.comparable_tags(vpc.get("Tags", []))
    return {"cidr": vpc["CidrBlock"], "dns_support": support, "dns_hostnames": hostnames, "tags": tags}


def _create_vpc(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    vpc = cloud.create("ec2", "create_vpc", CidrBlock=properties["cidr"], TagSpecifications=_specification("vpc", properties["tags"]))[
        "Vpc"
    ]
    found = Found(address, vpc["VpcId"], properties)
    _update_vpc(cloud, found, properties, frozenset({"dns_support", "dns_hostnames"}))
    return found


def _update_vpc(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    # AWS takes one attribute a call
    for name, field in (("dns_support", "EnableDnsSupport"), ("dns_hostnames", "EnableDnsHostnames")):
        if name in changed:
            cloud.once_visible(cloud.ec2.modify_vpc_attribute, VpcId=found.id, **{field: {"Value": properties[name]}})
    if "tags" in changed:
        _update_tags(cloud, found, properties)


def _delete_vpc(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.ec2.delete_vpc, VpcId=found.id)


# Internet gateway


def _internet_gateways(cloud: AwsClient) -> Iterator[Found]:
    for key, gateway in _described(cloud, "describe_internet_gateways", "InternetGateways"):
        vpc = next((item["VpcId"] for item in gateway.get("Attachments", [])), None)
        yield Found(
            Address("internet_gateway", key), gateway["InternetGatewayId"], {"vpc": vpc, "tags": cloud.comparable_tags(gateway["Tags"])}
        )


def _create_internet_gateway(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    gateway = cloud.create("ec2", "create_internet_gateway", TagSpecifications=_specification("internet-gateway", properties["tags"]))[
        "InternetGateway"
    ]
    found = Found(address, gateway["InternetGatewayId"], {**properties, "vpc": None})
    _update_internet_gateway(cloud, found, properties, frozenset({"vpc"}))
    return found


def _update_internet_gateway(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    if "vpc" in changed:
        if found.properties["vpc"]:
            cloud.ec2.detach_internet_gateway(InternetGatewayId=found.id, VpcId=found.properties["vpc"])
        cloud.once_visible(cloud.ec2.attach_internet_gateway, InternetGatewayId=found.id, VpcId=properties["vpc"])
    if "tags" in changed:
        _update_tags(cloud, found, properties)


def _delete_internet_gateway(cloud: AwsClient, found: Found) -> None:
    if found.properties["vpc"]:
        cloud.once_unused(cloud.ec2.detach_internet_gateway, InternetGatewayId=found.id, VpcId=found.properties["vpc"])
    cloud.once_unused(cloud.ec2.delete_internet_gateway, InternetGatewayId=found.id)


# Subnets


def _subnets(cloud: AwsClient) -> Iterator[Found]:
    for key, subnet in _described(cloud, "describe_subnets", "Subnets"):
        yield Found(Address("subnet", key), subnet["SubnetId"], subnet_properties(cloud, subnet))


def subnet_properties(cloud: AwsClient, subnet: Mapping[str, Any]) -> Properties:
    """A subnet as AWS describes it, in comparable form."""
    return {
        "vpc": subnet["VpcId"],
        "cidr": subnet.get("CidrBlock"),  # none with IPv6 alone
        "zone": subnet["AvailabilityZone"],
        "tags": cloud.comparable_tags(subnet.get("Tags", [])),
    }


def _create_subnet(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    subnet = cloud.create(
        "ec2",
        "create_subnet",
        VpcId=properties["vpc"],
        CidrBlock=properties["cidr"],
        AvailabilityZone=properties["zone"],
        TagSpecifications=_specification("subnet", properties["tags"]),
    )["Subnet"]
    return Found(address, subnet["SubnetId"], properties)


def _delete_subnet(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.ec2.delete_subnet, SubnetId=found.id)


# Elastic IP address and NAT gateway


def _elastic_ips(cloud: AwsClient) -> Iterator[Found]:
    for key, address in _described(cloud, "describe_addresses", "Addresses"):
        yield Found(
            Address("elastic_ip", key),
            address["AllocationId"],
            {"tags": cloud.comparable_tags(address["Tags"])},
            {"address": address["PublicIp"]},
        )


def _create_elastic_ip(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    allocated = cloud.create("ec2", "allocate_address", Domain="vpc", TagSpecifications=_specification("elastic-ip", properties["tags"]))
    return Found(address, allocated["AllocationId"], properties, {"address": allocated["PublicIp"]})


def _delete_elastic_ip(cloud: AwsClient, found: Found) -> None:
    # What AWS answers while the address is still associated
    cloud.once_unused(cloud.ec2.release_address, "AuthFailure", AllocationId=found.id)


def _nat_gateways(cloud: AwsClient) -> Iterator[Found]:
    alive = {"Name": "state", "Values": ["pending", "available"]}
    for key, gateway in _described(cloud, "describe_nat_gateways", "NatGateways", alive, filter_argument="Filter"):
        allocation = next((item.get("AllocationId") for item in gateway.get("NatGatewayAddresses", [])), None)
        yield Found(
            Address("nat_gateway", key),
            gateway["NatGatewayId"],
            {
                "subnet": gateway["SubnetId"],
                "elastic_ip": allocation,
                "state": gateway["State"],
                "tags": cloud.comparable_tags(gateway["Tags"]),
            },
        )


def _create_nat_gateway(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    try:
        gateway = cloud.once_visible(
            cloud.ec2.create_nat_gateway,
            SubnetId=properties["subnet"],
            AllocationId=properties["elastic_ip"],
            ClientToken=str(uuid4()),  # the same for each attempt
            TagSpecifications=_specification("natgateway", properties["tags"]),
        )["NatGateway"]
    except ClientError as error:
        if error_code(error) != "NotAvailableInZone":
            raise
        (subnet,) = cloud.ec2.describe_subnets(SubnetIds=[properties["subnet"]])["Subnets"]
        raise ClusterError(
            f"NAT gateways are not available in {subnet['AvailabilityZone']}, the zone of {subnet['SubnetId']}. Name other zones in zones, "
            "in another order where nat is single, or set nat: none where nodes need no way out."
        ) from error
    return Found(address, gateway["NatGatewayId"], properties)


def _update_nat_gateway(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    """A gateway that an earlier run left pending needs no call: it is waited for."""
    if "tags" in changed:
        _update_tags(cloud, found, properties)


def _settle_nat_gateway(cloud: AwsClient, found: Found) -> Found:
    def available() -> Found | None:
        gateway = cloud.once_visible(cloud.ec2.describe_nat_gateways, NatGatewayIds=[found.id])["NatGateways"][0]
        if gateway["State"] == "failed":
            raise ClusterError(f"The NAT gateway {found.id} failed: {gateway.get('FailureMessage', 'AWS gives no reason')}")
        return found if gateway["State"] == "available" else None

    return cloud.wait_until(f"NAT gateway {found.id}", available)


def _delete_nat_gateway(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.ec2.delete_nat_gateway, NatGatewayId=found.id)

    def gone() -> bool:
        gateways = cloud.retrieve("ec2", "describe_nat_gateways", "NatGateways", Filter=[{"Name": "nat-gateway-id", "Values": [found.id]}])
        return all(gateway["State"] == "deleted" for gateway in gateways)

    cloud.wait_until(f"Deletion of NAT gateway {found.id}", gone)


# Route tables


def _route_tables(cloud: AwsClient) -> Iterator[Found]:
    for key, table in _described(cloud, "describe_route_tables", "RouteTables"):
        associations = {item["SubnetId"]: item["RouteTableAssociationId"] for item in table["Associations"] if "SubnetId" in item}
        yield Found(
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
    """Destination and target; the local route and those that gateway endpoints put in are not ours to change."""
    for route in routes:
        target = route.get("NatGatewayId") or route.get("GatewayId")
        if target and target != "local" and "DestinationCidrBlock" in route:
            yield route["DestinationCidrBlock"], target


def _route_target(target: str) -> dict[str, str]:
    return {"NatGatewayId" if target.startswith("nat-") else "GatewayId": target}


def _create_route_table(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    table = cloud.once_visible(
        cloud.ec2.create_route_table,
        VpcId=properties["vpc"],
        ClientToken=str(uuid4()),  # the same for each attempt
        TagSpecifications=_specification("route-table", properties["tags"]),
    )["RouteTable"]
    cloud.created.add(table["RouteTableId"])
    found = Found(address, table["RouteTableId"], {**properties, "routes": frozenset(), "subnets": frozenset()}, {"associations": {}})
    _update_route_table(cloud, found, properties, frozenset({"routes", "subnets"}))
    return found


def _update_route_table(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
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
        _update_tags(cloud, found, properties)


def _associate(cloud: AwsClient, subnet: str, table: str) -> None:
    """Moves a subnet that another table routes in one step, so that it is never without a way out."""
    routed = [{"Name": "association.subnet-id", "Values": [subnet]}]
    tables = cloud.retrieve("ec2", "describe_route_tables", "RouteTables", Filters=routed)
    associations = (item for each in tables for item in each["Associations"])
    before = next((item["RouteTableAssociationId"] for item in associations if item.get("SubnetId") == subnet), None)
    if before:
        cloud.once_visible(cloud.ec2.replace_route_table_association, AssociationId=before, RouteTableId=table)
    else:
        cloud.once_visible(cloud.ec2.associate_route_table, SubnetId=subnet, RouteTableId=table)


def _delete_route_table(cloud: AwsClient, found: Found) -> None:
    for association in found.attributes["associations"].values():
        cloud.once_unused(cloud.ec2.disassociate_route_table, AssociationId=association)
    cloud.once_unused(cloud.ec2.delete_route_table, RouteTableId=found.id)


# Security groups


def _security_groups(cloud: AwsClient) -> Iterator[Found]:
    for key, group in _described(cloud, "describe_security_groups", "SecurityGroups"):
        yield Found(Address("security_group", key), group["GroupId"], security_group_properties(cloud, group))


def security_group_properties(cloud: AwsClient, group: Mapping[str, Any]) -> Properties:
    """A security group as AWS describes it, in comparable form."""
    return {
        "vpc": group["VpcId"],
        "description": group["Description"],
        "ingress": frozenset(rules(group["IpPermissions"], group["GroupId"])),
        "egress": frozenset(rules(group["IpPermissionsEgress"], group["GroupId"])),
        "tags": cloud.comparable_tags(group.get("Tags", [])),
    }


def rules(permissions: Iterable[Mapping[str, Any]], group_id: str | None = None) -> Iterator[Rule]:
    """The rules of a security group; C(self) stands for the group with that id."""
    for item in permissions:
        ports = (item["IpProtocol"], item.get("FromPort", -1), item.get("ToPort", -1))
        for ip_range in item.get("IpRanges", []):
            yield (*ports, ip_range["CidrIp"])
        for ip_range in item.get("Ipv6Ranges", []):
            yield (*ports, ip_range["CidrIpv6"])
        for pair in item.get("UserIdGroupPairs", []):
            yield (*ports, SELF if pair["GroupId"] == group_id else pair["GroupId"])
        for prefix_list in item.get("PrefixListIds", []):
            yield (*ports, prefix_list["PrefixListId"])


def _permission(group_id: str, rule: Rule) -> dict[str, Any]:
    protocol, first, last, source = rule
    permission: dict[str, Any] = {"IpProtocol": protocol}
    if protocol != "-1":
        permission |= {"FromPort": first, "ToPort": last}
    if source == SELF or source.startswith("sg-"):
        return {**permission, "UserIdGroupPairs": [{"GroupId": group_id if source == SELF else source}]}
    if source.startswith("pl-"):
        return {**permission, "PrefixListIds": [{"PrefixListId": source}]}
    if ":" in source:
        return {**permission, "Ipv6Ranges": [{"CidrIpv6": source}]}
    return {**permission, "IpRanges": [{"CidrIp": source}]}


def _create_security_group(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    group_id = cloud.create(
        "ec2",
        "create_security_group",
        GroupName=properties["tags"]["Name"],
        Description=properties["description"],
        VpcId=properties["vpc"],
        TagSpecifications=_specification("security-group", properties["tags"]),
    )["GroupId"]
    # AWS gives every new group the rule that lets everything out
    found = Found(address, group_id, {**properties, "ingress": frozenset(), "egress": frozenset({("-1", -1, -1, "0.0.0.0/0")})})
    _update_security_group(cloud, found, properties, frozenset({"ingress", "egress"} & properties.keys()))
    return found


def _update_security_group(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    for direction in ("ingress", "egress"):
        if direction in changed:
            before, after = found.properties[direction], properties[direction]
            _change_rules(cloud, f"authorize_security_group_{direction}", found.id, after - before)
            _change_rules(cloud, f"revoke_security_group_{direction}", found.id, before - after)
    if "tags" in changed:
        _update_tags(cloud, found, properties)


def _change_rules(cloud: AwsClient, operation: str, group_id: str, rules: frozenset[Rule]) -> None:
    if rules:
        permissions = [_permission(group_id, rule) for rule in sorted(rules)]
        cloud.once_visible(getattr(cloud.ec2, operation), GroupId=group_id, IpPermissions=permissions)


def _delete_security_group(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.ec2.delete_security_group, GroupId=found.id)


# VPC endpoints


ENDPOINTS_GONE = ("deleted", "deleting", "expired", "failed", "rejected")


def _vpc_endpoints(cloud: AwsClient) -> Iterator[Found]:
    for key, endpoint in _described(cloud, "describe_vpc_endpoints", "VpcEndpoints"):
        if endpoint_is_gone(endpoint):
            continue
        yield Found(
            Address("vpc_endpoint", key),
            endpoint["VpcEndpointId"],
            {
                "type": endpoint["VpcEndpointType"],
                "vpc": endpoint["VpcId"],
                "service": endpoint["ServiceName"],
                "route_tables": frozenset(endpoint.get("RouteTableIds", [])),
                "subnets": frozenset(endpoint.get("SubnetIds", [])),
                "security_groups": frozenset(group["GroupId"] for group in endpoint.get("Groups", [])),
                "private_dns": endpoint.get("PrivateDnsEnabled", False),
                "state": _endpoint_state(endpoint),
                "tags": cloud.comparable_tags(endpoint["Tags"]),
            },
        )


def _create_vpc_endpoint(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    arguments: dict[str, Any]
    if properties["type"] == "Gateway":
        arguments = {"RouteTableIds": sorted(properties["route_tables"])}
    else:
        arguments = {
            "SubnetIds": sorted(properties["subnets"]),
            "SecurityGroupIds": sorted(properties["security_groups"]),
            "PrivateDnsEnabled": properties["private_dns"],
        }
    endpoint = cloud.create(
        "ec2",
        "create_vpc_endpoint",
        VpcEndpointType=properties["type"],
        VpcId=properties["vpc"],
        ServiceName=properties["service"],
        TagSpecifications=_specification("vpc-endpoint", properties["tags"]),
        **arguments,
    )["VpcEndpoint"]
    return Found(address, endpoint["VpcEndpointId"], properties)


def _update_vpc_endpoint(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    """An endpoint that an earlier run left pending needs no call: it is waited for."""
    change: dict[str, Any] = {}
    for name, field in (("route_tables", "RouteTableIds"), ("subnets", "SubnetIds"), ("security_groups", "SecurityGroupIds")):
        if name in changed:
            before, after = found.properties[name], properties[name]
            change.update({f"Add{field}": sorted(after - before), f"Remove{field}": sorted(before - after)})
    if "private_dns" in changed:
        change["PrivateDnsEnabled"] = properties["private_dns"]
    if change:
        cloud.once_visible(
            cloud.ec2.modify_vpc_endpoint, VpcEndpointId=found.id, **{name: value for name, value in change.items() if value != []}
        )
    if "tags" in changed:
        _update_tags(cloud, found, properties)


def _settle_vpc_endpoint(cloud: AwsClient, found: Found) -> Found:
    def available() -> Found | None:
        endpoint = cloud.once_visible(cloud.ec2.describe_vpc_endpoints, VpcEndpointIds=[found.id])["VpcEndpoints"][0]
        state = _endpoint_state(endpoint)
        if state not in ("pending", "available"):
            raise ClusterError(f"The endpoint {found.id} is {state}: {endpoint.get('LastError', {}).get('Message', 'AWS gives no reason')}")
        return found if state == "available" else None

    return cloud.wait_until(f"Endpoint {found.id}", available)


def endpoint_is_gone(endpoint: Mapping[str, Any]) -> bool:
    """Whether an endpoint never works again. One that works in some of its subnets, or waits for its owner, is there."""
    return _endpoint_state(endpoint) in ENDPOINTS_GONE


def _endpoint_state(endpoint: Mapping[str, Any]) -> str:
    """The state in lower case, as some answers have it. A partial one works in some of its subnets, which is all that can be had."""
    state = endpoint["State"].lower()
    return "available" if state == "partial" else str(state)


def _delete_vpc_endpoint(cloud: AwsClient, found: Found) -> None:
    failed = cloud.ec2.delete_vpc_endpoints(VpcEndpointIds=[found.id]).get("Unsuccessful", [])
    errors = [item["Error"] for item in failed if not item["Error"]["Code"].endswith("NotFound")]
    if errors:
        raise ClusterError(f"{found.address}: {errors[0]['Message']}")

    def gone() -> bool:
        filters = [{"Name": "vpc-endpoint-id", "Values": [found.id]}]
        endpoints = cloud.retrieve("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=filters)
        return all(endpoint["State"].lower() == "deleted" for endpoint in endpoints)

    cloud.wait_until(f"Deletion of endpoint {found.id}", gone)


def _kind(name: str, create: Callable[..., Found], delete: Callable[..., None], **more: Any) -> Kind:
    more.setdefault("update", _update_tags_only)
    more["updatable"] = frozenset({"tags", *more.get("updatable", ())})
    return Kind(name, create, delete, **more)


KINDS = (
    _kind(
        "vpc",
        _create_vpc,
        _delete_vpc,
        update=_update_vpc,
        updatable=("dns_support", "dns_hostnames"),
        deleted_after=("internet_gateway", "subnet", "route_table", "security_group", "vpc_endpoint", "nat_gateway"),
    ),
    _kind(
        "internet_gateway",
        _create_internet_gateway,
        _delete_internet_gateway,
        update=_update_internet_gateway,
        updatable=("vpc",),
        deleted_after=("auto_scaling_group", "elastic_ip", "nat_gateway"),
    ),
    _kind(
        "subnet",
        _create_subnet,
        _delete_subnet,
        deleted_after=("auto_scaling_group", "mount_target", "lustre_file_system", "nat_gateway", "vpc_endpoint"),
    ),
    _kind("elastic_ip", _create_elastic_ip, _delete_elastic_ip, deleted_after=("nat_gateway",)),
    _kind(
        "nat_gateway",
        _create_nat_gateway,
        _delete_nat_gateway,
        update=_update_nat_gateway,
        settle=_settle_nat_gateway,
        updatable=("state",),
    ),
    _kind(
        "route_table",
        _create_route_table,
        _delete_route_table,
        update=_update_route_table,
        updatable=("routes", "subnets"),
        deleted_after=("vpc_endpoint",),
    ),
    _kind(
        "security_group",
        _create_security_group,
        _delete_security_group,
        update=_update_security_group,
        updatable=("ingress", "egress"),
        deleted_after=("auto_scaling_group", "mount_target", "lustre_file_system", "vpc_endpoint"),
    ),
    _kind(
        "vpc_endpoint",
        _create_vpc_endpoint,
        _delete_vpc_endpoint,
        update=_update_vpc_endpoint,
        settle=_settle_vpc_endpoint,
        updatable=("route_tables", "subnets", "security_groups", "private_dns", "state"),
    ),
)
