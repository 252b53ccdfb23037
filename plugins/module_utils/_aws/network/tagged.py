# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds the resources of a cluster's network by their tags, and changes the tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Mapping

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import COMPONENT_TAG, KEY_TAG, AwsClient, tag_dict, tag_list
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Kind
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found, Properties
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import NETWORK_COMPONENT


def described(
    cloud: AwsClient, operation: str, key: str, *filters: Mapping[str, Any], filter_argument: str = "Filters"
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the key and the description of each resource that belongs to this cluster's network."""
    for item in cloud.retrieve("ec2", operation, key, **{filter_argument: cloud.filters(*filters)}):
        tags = tag_dict(item.get("Tags", []))
        if tags.get(COMPONENT_TAG) == NETWORK_COMPONENT and KEY_TAG in tags:
            yield tags[KEY_TAG], item


def tag_specifications(resource_type: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": resource_type, "Tags": tag_list(tags)}]


def update_tags(cloud: AwsClient, found: Found, properties: Properties) -> None:
    cloud.ec2.create_tags(Resources=[found.id], Tags=tag_list(properties["tags"]))


def update_tags_only(cloud: AwsClient, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    update_tags(cloud, found, properties)


def network_kind(name: str, create: Callable[..., Found], delete: Callable[..., None], **more: Any) -> Kind:
    more.setdefault("update", update_tags_only)
    more["updatable"] = frozenset({"tags", *more.get("updatable", ())})
    return Kind(name, create, delete, **more)
