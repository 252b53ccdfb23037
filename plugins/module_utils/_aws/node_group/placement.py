# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The placement group, which places nodes close to each other in one zone for low latency."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Mapping

from ..client import AwsClient, ClientError, ClusterError, tag_list
from ..error_codes import error_code
from ..message_parts import P
from ..own_resources import read_own
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties, Wanted
from ..tags import NODES_COMPONENT
from .definition import PLACEMENT_GROUP

STRATEGY = "cluster"


def wanted(name: str, tags: Callable[[Address], dict[str, str]]) -> Wanted:
    return Wanted(PLACEMENT_GROUP, {"name": name, "strategy": STRATEGY, "tags": tags(PLACEMENT_GROUP)})


def read(cloud: AwsClient, named: str | None) -> Iterator[Found]:
    """Yield the cluster's placement group, or the one that the user specified."""

    def convert(_cloud: AwsClient, key: str, group: Mapping[str, Any]) -> Found:
        name = group["GroupName"]
        # The group that the user specified replaces the cluster's own group
        address = PLACEMENT_GROUP if named in (None, "", name) else Address(PLACEMENT_GROUP.kind, f"former-{key}")
        properties = {"name": name, "strategy": group["Strategy"], "tags": cloud.comparable_tags(group["Tags"])}
        return Found(address, name, properties, {"group_id": group["GroupId"]})

    own = list(read_own(cloud, _described(cloud, *cloud.filters()), NODES_COMPONENT, "GroupName", convert))
    yield from own
    if named and all(found.address != PLACEMENT_GROUP for found in own):
        for group in _described(cloud, {"Name": "group-name", "Values": [named]}):
            yield Found(PLACEMENT_GROUP, named, {"name": named, "strategy": group["Strategy"]}, adopted=True)


def _described(cloud: AwsClient, *filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    alive = {"Name": "state", "Values": ["pending", "available"]}
    return cloud.retrieve("ec2", "describe_placement_groups", "PlacementGroups", Filters=[*filters, alive])


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    name = properties["name"]
    try:
        group = cloud.create(
            "ec2",
            "create_placement_group",
            GroupName=name,
            Strategy=properties["strategy"],
            TagSpecifications=[{"ResourceType": "placement-group", "Tags": tag_list(properties["tags"])}],
        )["PlacementGroup"]
    except ClientError as error:
        if error_code(error) == "InvalidPlacementGroup.Duplicate":
            _refuse_foreign(cloud, name)
        raise
    return Found(address, name, properties, {"group_id": group["GroupId"]})


def _refuse_foreign(cloud: AwsClient, name: str) -> None:
    if not any(item.id == name for item in read(cloud, None)):
        raise ClusterError(
            f"{P}placement_group: the placement group {name} exists, but does not have this cluster's tags. "
            f"Set {P}placement_group: {name} to use it, or delete it."
        )


def _settle(cloud: AwsClient, found: Found) -> Found:
    def available() -> bool:
        group = cloud.once_visible(cloud.ec2.describe_placement_groups, "InvalidPlacementGroup.Unknown", GroupNames=[found.id])
        return bool(group["PlacementGroups"][0]["State"] == "available")

    cloud.wait_until(f"placement group {found.id} to become available", available)
    return found


def _update(cloud: AwsClient, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    cloud.ec2.create_tags(Resources=[found.attributes["group_id"]], Tags=tag_list(properties["tags"]))


def _delete(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.ec2.delete_placement_group, GroupName=found.id)


KIND = Kind(
    PLACEMENT_GROUP.kind,
    _create,
    _delete,
    update=_update,
    settle=_settle,
    updatable=frozenset({"tags"}),
    deleted_after=("auto_scaling_group",),
)
