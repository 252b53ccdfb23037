# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""NAT gateways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Mapping
from uuid import uuid4

from ..client import AwsClient, ClientError, ClusterError
from ..error_codes import error_code
from ..message_parts import P
from ..plan.resources import Address, Found
from .tagged import Properties, network_kind, read_tagged, tag_specifications, update_tags


def read(cloud: AwsClient) -> Iterator[Found]:
    alive = {"Name": "state", "Values": ["pending", "available"]}
    return read_tagged(cloud, _found, "describe_nat_gateways", ("NatGateways", "NatGatewayId"), alive, filter_argument="Filter")


def _found(cloud: AwsClient, key: str, gateway: Mapping[str, Any]) -> Found:
    allocation = next((item.get("AllocationId") for item in gateway.get("NatGatewayAddresses", [])), None)
    return Found(
        Address("nat_gateway", key),
        gateway["NatGatewayId"],
        {
            "subnet": gateway["SubnetId"],
            "elastic_ip": allocation,
            "state": gateway["State"],
            "tags": cloud.comparable_tags(gateway["Tags"]),
        },
    )


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    try:
        gateway = cloud.once_visible(
            cloud.ec2.create_nat_gateway,
            SubnetId=properties["subnet"],
            AllocationId=properties["elastic_ip"],
            ClientToken=str(uuid4()),  # every attempt uses the same token
            TagSpecifications=tag_specifications("natgateway", properties["tags"]),
        )["NatGateway"]
    except ClientError as error:
        if error_code(error) != "NotAvailableInZone":
            raise
        (subnet,) = cloud.ec2.describe_subnets(SubnetIds=[properties["subnet"]])["Subnets"]
        raise ClusterError(
            f"NAT gateways are not available in {subnet['AvailabilityZone']}, the zone of {subnet['SubnetId']}. Choose other zones "
            f"with the option {P}zones, or set {P}nat: none if the nodes do not need a route to the internet."
        ) from error
    return Found(address, gateway["NatGatewayId"], properties)


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    """Update the tags. A gateway that an earlier run left in the pending state needs no update, because `settle` waits for it."""
    if "tags" in changed:
        update_tags(cloud, found, properties)


def _settle(cloud: AwsClient, found: Found) -> Found:
    def available() -> Found | None:
        gateway = cloud.once_visible(cloud.ec2.describe_nat_gateways, NatGatewayIds=[found.id])["NatGateways"][0]
        if gateway["State"] == "failed":
            raise ClusterError(f"NAT gateway {found.id} failed: {gateway.get('FailureMessage', 'AWS returned no reason')}")
        return found if gateway["State"] == "available" else None

    return cloud.wait_until(f"NAT gateway {found.id} to become available", available)


def _delete(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.ec2.delete_nat_gateway, NatGatewayId=found.id)

    def gone() -> bool:
        gateways = cloud.retrieve("ec2", "describe_nat_gateways", "NatGateways", Filter=[{"Name": "nat-gateway-id", "Values": [found.id]}])
        return all(gateway["State"] == "deleted" for gateway in gateways)

    cloud.wait_until(f"the deletion of NAT gateway {found.id}", gone)


KIND = network_kind(
    "nat_gateway",
    _create,
    _delete,
    update=_update,
    settle=_settle,
    updatable=("state",),
)
