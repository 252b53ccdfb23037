# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The Elastic IP addresses of NAT gateways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Mapping

from ..client import AwsClient
from ..plan.resources import Address, Found
from .tagged import Properties, network_kind, read_tagged, tag_specifications


def read(cloud: AwsClient) -> Iterator[Found]:
    return read_tagged(cloud, _found, "describe_addresses", ("Addresses", "PublicIp"))


def _found(cloud: AwsClient, key: str, address: Mapping[str, Any]) -> Found:
    return Found(
        Address("elastic_ip", key),
        address["AllocationId"],
        {"tags": cloud.comparable_tags(address["Tags"])},
        {"address": address["PublicIp"]},
    )


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    allocated = cloud.create(
        "ec2", "allocate_address", Domain="vpc", TagSpecifications=tag_specifications("elastic-ip", properties["tags"])
    )
    return Found(address, allocated["AllocationId"], properties, {"address": allocated["PublicIp"]})


def _delete(cloud: AwsClient, found: Found) -> None:
    # AWS may also return AuthFailure while the address is still associated
    cloud.once_unused(cloud.ec2.release_address, "AuthFailure", AllocationId=found.id)


KIND = network_kind("elastic_ip", _create, _delete, deleted_after=("nat_gateway",))
