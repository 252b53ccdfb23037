# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""VPC endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Mapping

from ..client import AwsClient, ClusterError
from ..plan.resources import Address, Found
from .tagged import Properties, network_kind, read_tagged, tag_specifications, update_tags

ENDPOINTS_GONE = ("deleted", "deleting", "expired", "failed", "rejected")


def read(cloud: AwsClient) -> Iterator[Found]:
    return read_tagged(cloud, _found, "describe_vpc_endpoints", ("VpcEndpoints", "VpcEndpointId"))


def _found(cloud: AwsClient, key: str, endpoint: Mapping[str, Any]) -> Found | None:
    if endpoint_is_gone(endpoint):
        return None
    return Found(
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


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
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
        TagSpecifications=tag_specifications("vpc-endpoint", properties["tags"]),
        **arguments,
    )["VpcEndpoint"]
    return Found(address, endpoint["VpcEndpointId"], properties)


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    """Update the changed properties. An endpoint that an earlier run left pending needs no update, because `settle` waits for it."""
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
        update_tags(cloud, found, properties)


def _settle(cloud: AwsClient, found: Found) -> Found:
    def available() -> Found | None:
        endpoint = cloud.once_visible(cloud.ec2.describe_vpc_endpoints, VpcEndpointIds=[found.id])["VpcEndpoints"][0]
        state = _endpoint_state(endpoint)
        if state not in ("pending", "available"):
            raise ClusterError(f"Endpoint {found.id} is {state}: {endpoint.get('LastError', {}).get('Message', 'AWS returned no reason')}")
        return found if state == "available" else None

    return cloud.wait_until(f"endpoint {found.id} to become available", available)


def endpoint_is_gone(endpoint: Mapping[str, Any]) -> bool:
    """Return whether an endpoint is permanently unusable.

    In the states `partial` and `pendingAcceptance`, an endpoint is not permanently unusable.
    """
    return _endpoint_state(endpoint) in ENDPOINTS_GONE


def _endpoint_state(endpoint: Mapping[str, Any]) -> str:
    """Return the state of an endpoint in lower case, as AWS does not capitalize it consistently, and `available` for `partial`."""
    state = endpoint["State"].lower()
    return "available" if state == "partial" else str(state)


def delete(cloud: AwsClient, found: Found) -> None:
    failed = cloud.ec2.delete_vpc_endpoints(VpcEndpointIds=[found.id]).get("Unsuccessful", [])
    errors = [item["Error"] for item in failed if not item["Error"]["Code"].endswith("NotFound")]
    if errors:
        raise ClusterError(f"{found.address}: {errors[0]['Message']}")

    def gone() -> bool:
        filters = [{"Name": "vpc-endpoint-id", "Values": [found.id]}]
        endpoints = cloud.retrieve("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=filters)
        return all(endpoint["State"].lower() == "deleted" for endpoint in endpoints)

    cloud.wait_until(f"the deletion of endpoint {found.id}", gone)


KIND = network_kind(
    "vpc_endpoint",
    _create,
    delete,
    update=_update,
    settle=_settle,
    updatable=("route_tables", "subnets", "security_groups", "private_dns", "state"),
)
