# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The master's Elastic IP address. At launch, AWS does not assign a public address to an instance with several network interfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Mapping

from ..client import AwsClient, tag_list
from ..node_names import MASTER, group_name
from ..own_resources import read_own
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties, Wanted
from ..tags import NODES_COMPONENT
from .definition import MASTER_ADDRESS, Capacity, auto_scaling_group, launch_parameters, nodes
from .launch_and_termination import in_group, live_instances, wait_for_instances


def wanted(tags: Callable[[Address], dict[str, str]], capacity: Capacity, *, wait: bool, numbered: bool) -> Wanted:
    """Return the Elastic IP address. If `wait` is false, a later run associates the address with the master.

    A new master gets the address as soon as it runs, because its boot script needs the internet. The master gets its number only when all
    workers are in service. This can take as long as `capacity_timeout`. If the master has a number, this run may replace the master, so the
    run associates the address after the replacement.
    """
    own_tags = tags(MASTER_ADDRESS)
    if not wait:
        return Wanted(MASTER_ADDRESS, {"tags": own_tags})
    properties = {"master_is_public": True, "tags": own_tags}
    if numbered:
        return Wanted(MASTER_ADDRESS, properties, after=(nodes(MASTER),))
    new = {"new_master": launch_parameters(MASTER, capacity)}
    return Wanted(MASTER_ADDRESS, properties, after=(auto_scaling_group(MASTER),), parameters=new)


def read(cloud: AwsClient) -> Iterator[Found]:
    """Return the Elastic IP address with the cluster's tags. The caller determines whether the master uses the address."""
    described = cloud.retrieve("ec2", "describe_addresses", "Addresses", Filters=cloud.filters())
    return read_own(cloud, described, NODES_COMPONENT, "PublicIp", _found)


def _found(cloud: AwsClient, _key: str, address: Mapping[str, Any]) -> Found:
    tags = cloud.comparable_tags(address["Tags"])
    return Found(MASTER_ADDRESS, address["AllocationId"], {"tags": tags}, {"address": address["PublicIp"]})


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    allocated = cloud.create(
        "ec2", "allocate_address", Domain="vpc", TagSpecifications=[{"ResourceType": "elastic-ip", "Tags": tag_list(properties["tags"])}]
    )
    found = Found(address, allocated["AllocationId"], properties, {"address": allocated["PublicIp"]})
    if properties.get("master_is_public"):
        _associate(cloud, found.id, properties)
    return found


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    if "tags" in changed:
        cloud.ec2.create_tags(Resources=[found.id], Tags=tag_list(properties["tags"]))
    if "master_is_public" in changed:
        _associate(cloud, found.id, properties)


def _associate(cloud: AwsClient, allocation_id: str, properties: Properties) -> None:
    """Associate the address with the master, unless the master was launched with a different public address. Raises Shortage."""
    for instance in _masters(cloud, properties.get("new_master")):
        if not instance.get("PublicIpAddress"):
            primary = next(item for item in instance["NetworkInterfaces"] if item.get("PrivateIpAddress") == instance["PrivateIpAddress"])
            cloud.once_visible(
                cloud.ec2.associate_address,
                AllocationId=allocation_id,
                NetworkInterfaceId=primary["NetworkInterfaceId"],
                AllowReassociation=True,  # a master that is being replaced may still have the address
            )


def _masters(cloud: AwsClient, launch: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the master and, while it is being replaced, its predecessor.

    If the master is new, `launch` contains its `launch_parameters`.
    """
    if launch:
        return wait_for_instances(cloud, group_name(cloud.cluster, MASTER), 1, launch)[0]
    return in_group(cloud, live_instances(cloud), MASTER)


def _delete(cloud: AwsClient, found: Found) -> None:
    # AWS may also return AuthFailure while the address is still associated
    cloud.once_unused(cloud.ec2.release_address, "AuthFailure", AllocationId=found.id)


KIND = Kind(
    MASTER_ADDRESS.kind,
    _create,
    _delete,
    update=_update,
    updatable=frozenset({"master_is_public", "tags"}),
    deleted_after=("auto_scaling_group",),
)
