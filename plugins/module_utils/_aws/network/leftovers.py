# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds resources that prevent the deletion of a VPC.

These are resources that do not belong to the cluster, and resources that AWS has not removed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any, Mapping

from ..client import AwsClient, ClientError, ClusterError, tag_dict
from ..error_codes import error_code
from ..plan.resources import Found
from ..tags import CLUSTER_TAG


def delete(cloud: AwsClient, call: Callable[..., Any], place: tuple[str, str], vpc_id: str, **arguments: Any) -> None:
    """Delete a VPC, subnet or security group, and retry while it is in use. `place` is the EC2 filter for network interfaces that use it.

    Raises ClusterError at once if resources that do not belong to the cluster use it, because AWS does not remove such resources.
    """

    def attempt(**arguments: Any) -> Any:
        try:
            return call(**arguments)
        except ClientError as error:
            others = _of_others(cloud, place, vpc_id) if error_code(error) == "DependencyViolation" else []
            if not others:
                raise
            raise ClusterError(
                f"{place[1]} contains resources that do not belong to the cluster: {'; '.join(others)}. Delete these resources, then run "
                "again"
            ) from error

    cloud.once_unused(attempt, **arguments)


def _of_others(cloud: AwsClient, place: tuple[str, str], vpc_id: str) -> list[str]:
    """Return the names of resources without the cluster's tag.

    Network interfaces without an instance are omitted. They may belong to a service that will remove them, such as EFS.
    """

    def removed_later(item: Mapping[str, Any]) -> bool:
        return "NetworkInterfaceId" in item and "InstanceId" not in item.get("Attachment", {})

    return [
        name
        for item, name in _described(cloud, *place, vpc_id)
        if tag_dict(item.get("Tags", item.get("TagSet", []))).get(CLUSTER_TAG) != cloud.cluster and not removed_later(item)
    ]


def _described(cloud: AwsClient, filter_name: str, value: str, vpc_id: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the resources in a VPC, subnet or security group that AWS does not delete with it, and their names for messages."""
    in_vpc = filter_name == VPC_ID
    for operation, key, own_filter, named in KINDS if in_vpc else KINDS[:1]:
        filters = [{"Name": own_filter or filter_name, "Values": [value]}]
        for item in cloud.retrieve("ec2", operation, key, Filters=filters):
            name = named(item)
            if name:
                yield item, name
    # EC2 has no filter for the subnets and groups of endpoints
    here = [{"Name": VPC_ID, "Values": [vpc_id]}]
    for endpoint in () if in_vpc else cloud.retrieve("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=here):
        name = _endpoint(endpoint)
        if name and value in (*endpoint.get("SubnetIds", ()), *(group["GroupId"] for group in endpoint.get("Groups", ()))):
            yield endpoint, name


def _interface(item: Mapping[str, Any]) -> str:
    instance = item.get("Attachment", {}).get("InstanceId")
    user = f"of instance {instance}" if instance else item.get("Description") or item.get("InterfaceType", "")
    return f"network interface {item['NetworkInterfaceId']} ({user}) in {item['SubnetId']}"


def _subnet(item: Mapping[str, Any]) -> str:
    return f"subnet {_named(item, 'SubnetId')}"


def _group(item: Mapping[str, Any]) -> str | None:
    return None if item["GroupName"] == "default" else f"security group {item['GroupName']} ({item['GroupId']})"


def _route_table(item: Mapping[str, Any]) -> str | None:
    return None if any(each.get("Main") for each in item.get("Associations", [])) else f"route table {_named(item, 'RouteTableId')}"


def _endpoint(item: Mapping[str, Any]) -> str | None:
    """Return the name of an endpoint. An endpoint of VPC Lattice has the ARN of a resource or a service network in place of a service."""
    targets = (item.get(name) for name in ("ServiceName", "ResourceConfigurationArn", "ServiceNetworkArn", "VpcEndpointType"))
    is_gone = item["State"].lower() in ("deleted", "deleting")
    return None if is_gone else f"endpoint {item['VpcEndpointId']} of {next(filter(None, targets), 'an unknown type')}"


def _internet_gateway(item: Mapping[str, Any]) -> str:
    return f"internet gateway {_named(item, 'InternetGatewayId')}"


VPC_ID = "vpc-id"
# For each kind of resource in a VPC: the API call, the key of its response, the filter for the VPC if it is not `vpc-id`, and the function
# that returns the name, or None if AWS deletes the resource together with the VPC.
KINDS: tuple[tuple[str, str, str, Callable[[Mapping[str, Any]], str | None]], ...] = (
    ("describe_network_interfaces", "NetworkInterfaces", "", _interface),
    ("describe_subnets", "Subnets", "", _subnet),
    ("describe_security_groups", "SecurityGroups", "", _group),
    ("describe_route_tables", "RouteTables", "", _route_table),
    ("describe_vpc_endpoints", "VpcEndpoints", "", _endpoint),
    ("describe_internet_gateways", "InternetGateways", "attachment.vpc-id", _internet_gateway),
)


def in_vpc(cloud: AwsClient, vpc_id: str) -> list[str]:
    """Return the names of all resources in a VPC that AWS does not delete together with the VPC."""
    return [name for _item, name in _described(cloud, VPC_ID, vpc_id, vpc_id)]


def tagged(cloud: AwsClient) -> list[str]:
    """Return the names of volumes and network interfaces that have the cluster's tag and that no instance uses."""
    unused = {"Name": "status", "Values": ["available"]}
    volumes = cloud.retrieve("ec2", "describe_volumes", "Volumes", Filters=cloud.filters(unused))
    interfaces = cloud.retrieve("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=cloud.filters(unused))
    return [
        *(f"volume {item['VolumeId']} ({item['Size']} GiB)" for item in volumes),
        *(f"network interface {item['NetworkInterfaceId']}" for item in interfaces),
    ]


def used(cloud: AwsClient, deleted: Iterable[Found], kept: Set[str]) -> list[str]:
    """Return the names of the Elastic IP addresses and VPCs that deleted resources of the cluster's network used, and that still exist.

    They have lost the tags by which a run finds them. The run has found the resources whose IDs are in `kept`, and keeps them.
    """
    resources = list(deleted)
    allocations = {item.properties["elastic_ip"] for item in resources if item.address.kind == "nat_gateway"} - kept
    # In an adopted VPC, the cluster has neither subnets nor an internet gateway of its own
    vpcs = {item.properties["vpc"] for item in resources if item.address.kind in ("internet_gateway", "subnet")} - kept

    def existing(operation: str, key: str, filter_name: str, ids: set[str | None]) -> list[dict[str, Any]]:
        filters = [{"Name": filter_name, "Values": sorted(filter(None, ids))}]
        return cloud.retrieve("ec2", operation, key, Filters=filters) if any(ids) else []

    addresses = existing("describe_addresses", "Addresses", "allocation-id", allocations)
    return [
        *(f"Elastic IP address {item['PublicIp']} ({item['AllocationId']})" for item in addresses),
        *(f"VPC {_named(item, 'VpcId')}" for item in existing("describe_vpcs", "Vpcs", VPC_ID, vpcs)),
    ]


def _named(item: Mapping[str, Any], id_key: str) -> str:
    name = tag_dict(item.get("Tags", [])).get("Name")
    return f"{name} ({item[id_key]})" if name else str(item[id_key])
