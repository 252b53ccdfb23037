"""Placement groups, which moto lacks."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2 import utils
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response
from moto.ec2.utils import generic_filter, random_resource_id

from ..override import override
from .instances import ENDING

utils.EC2_RESOURCE_TO_PREFIX["placement-group"] = "pg"
utils.EC2_PREFIX_TO_RESOURCE["pg"] = "placement-group"


class PlacementGroup(TaggedEC2Resource):
    """A placement group."""

    def __init__(self, backend: EC2Backend, name: str, strategy: str, partitions: int | None, tags: dict[str, str]) -> None:
        self.ec2_backend = backend
        self.id = self.group_id = f"pg-{random_resource_id(17)}"
        self.group_name = name
        self.strategy = strategy
        self.partition_count = partitions
        self.state = "available"
        self.group_arn = f"arn:{backend.partition}:ec2:{backend.region_name}:{backend.account_id}:placement-group/{name}"
        self.add_tags(tags)

    @property
    def tags(self) -> list[dict[str, str]]:
        return self.get_tags()


def placement_groups(backend: EC2Backend) -> dict[str, PlacementGroup]:
    """Return the placement groups of an account and region by name."""
    found: dict[str, PlacementGroup] = backend.__dict__.setdefault("placement_groups", {})
    return found


def find_placement_group(backend: EC2Backend, name: str) -> PlacementGroup:
    """Return the group with this name. Raises `InvalidPlacementGroup.Unknown`."""
    try:
        return placement_groups(backend)[name]
    except KeyError:
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.") from None


def check_type(group: PlacementGroup, instance_type: str) -> None:
    """Raise `InvalidParameterCombination` for a type that does not support the strategy of the group."""
    if group.strategy not in INSTANCE_TYPES[instance_type]["PlacementGroupInfo"]["SupportedStrategies"]:
        raise EC2ClientError(
            "InvalidParameterCombination",
            f"{group.strategy.capitalize()} placement groups are not supported by the '{instance_type}' instance type. "
            "Specify a supported instance type or change the placement group strategy, and try again.",
        )


def check_zone(backend: EC2Backend, name: str | None, zone: str) -> None:
    """Raise `InvalidParameterValue` if a cluster placement group has instances in another zone."""
    if not name or find_placement_group(backend, name).strategy != "cluster":
        return
    elsewhere = {each.availability_zone for each in _members(backend, name)} - {zone}
    if elsewhere:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"The cluster placement group '{name}' is in use in the Availability Zone {elsewhere.pop()} and cannot span to {zone}.",
        )


def _members(backend: EC2Backend, name: str) -> list[Any]:
    return [each for each in backend.all_instances() if each.placement.group_name == name and each.state not in ENDING]


@override(EC2Response)
def create_placement_group(self: EC2Response) -> ActionResult:
    name, groups = self._get_param("GroupName"), placement_groups(self.ec2_backend)
    if name in groups:
        raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    tags = self._parse_tag_specification("placement-group").get("placement-group", {})
    self.error_on_dryrun()
    groups[name] = PlacementGroup(
        self.ec2_backend, name, self._get_param("Strategy") or "cluster", self._get_int_param("PartitionCount"), tags
    )
    return ActionResult({"PlacementGroup": groups[name]})


@override(EC2Response)
def describe_placement_groups(self: EC2Response) -> ActionResult:
    groups = placement_groups(self.ec2_backend)
    names = self._get_param("GroupNames", [])
    wanted: list[Any] = [find_placement_group(self.ec2_backend, name) for name in names] if names else list(groups.values())
    if identifiers := self._get_param("GroupIds", []):
        wanted = [group for group in wanted if group.id in identifiers]
    return ActionResult({"PlacementGroups": generic_filter(self._filters_from_querystring(), wanted)})


@override(EC2Response)
def delete_placement_group(self: EC2Response) -> EmptyResult:
    group = find_placement_group(self.ec2_backend, self._get_param("GroupName"))
    self.error_on_dryrun()
    if _members(self.ec2_backend, group.group_name):
        raise EC2ClientError("InvalidPlacementGroup.InUse", f"The placement group '{group.group_name}' is in use and may not be deleted.")
    del placement_groups(self.ec2_backend)[group.group_name]
    self.ec2_backend.tags.pop(group.id, None)
    return EmptyResult()
