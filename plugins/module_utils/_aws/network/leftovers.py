# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds resources that prevent the deletion of a VPC.

These are resources that do not belong to the cluster, and resources that AWS has not removed yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Mapping

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AwsClient, tag_dict


def in_vpc(cloud: AwsClient, vpc_id: str) -> list[str]:
    """Return the names of all resources in a VPC that AWS does not delete together with the VPC."""
    inside = [{"Name": "vpc-id", "Values": [vpc_id]}]

    def described(operation: str, key: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
        yield from cloud.retrieve("ec2", operation, key, **(arguments or {"Filters": inside}))

    result = []
    for interface in described("describe_network_interfaces", "NetworkInterfaces"):
        instance = interface.get("Attachment", {}).get("InstanceId")
        user = f"of instance {instance}" if instance else interface.get("Description") or interface.get("InterfaceType", "")
        result.append(f"network interface {interface['NetworkInterfaceId']} ({user}) in {interface['SubnetId']}")
    result += [f"subnet {_named(item, 'SubnetId')}" for item in described("describe_subnets", "Subnets")]
    result += [
        f"security group {item['GroupName']} ({item['GroupId']})"
        for item in described("describe_security_groups", "SecurityGroups")
        if item["GroupName"] != "default"
    ]
    result += [
        f"route table {_named(item, 'RouteTableId')}"
        for item in described("describe_route_tables", "RouteTables")
        if not any(association.get("Main") for association in item["Associations"])
    ]
    result += [
        f"endpoint {item['VpcEndpointId']} of {item['ServiceName']}"
        for item in described("describe_vpc_endpoints", "VpcEndpoints")
        if item["State"] != "deleted"
    ]
    attached = [{"Name": "attachment.vpc-id", "Values": [vpc_id]}]
    result += [
        f"internet gateway {_named(item, 'InternetGatewayId')}"
        for item in described("describe_internet_gateways", "InternetGateways", Filters=attached)
    ]
    return result


def tagged(cloud: AwsClient) -> list[str]:
    """Return the names of volumes and network interfaces that have the cluster's tag and that no instance uses.

    Unused volumes cost money. Unused network interfaces prevent the deletion of their subnets.
    """
    unused = {"Name": "status", "Values": ["available"]}
    volumes = cloud.retrieve("ec2", "describe_volumes", "Volumes", Filters=cloud.filters(unused))
    interfaces = cloud.retrieve("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=cloud.filters(unused))
    return [
        *(f"volume {item['VolumeId']} ({item['Size']} GiB)" for item in volumes),
        *(f"network interface {item['NetworkInterfaceId']}" for item in interfaces),
    ]


def _named(item: Mapping[str, Any], id_key: str) -> str:
    name = tag_dict(item.get("Tags", [])).get("Name")
    return f"{name} ({item[id_key]})" if name else str(item[id_key])
