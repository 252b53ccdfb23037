# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds the resources of a cluster's network by their tags, and changes the tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Mapping

from ..client import AwsClient, tag_list
from ..own_resources import read_own
from ..plan.planning import Kind
from ..plan.resources import Found, Properties
from ..tags import NETWORK_COMPONENT


def read_tagged(
    cloud: AwsClient,
    convert: Callable[[AwsClient, str, Mapping[str, Any]], Found | None],
    operation: str,
    names: tuple[str, str],
    *filters: Mapping[str, Any],
    filter_argument: str = "Filters",
) -> Iterator[Found]:
    """Yield the resources that belong to this cluster's network. `convert` returns a resource, or None, for a key and a description.

    `names` contains the name of the list in the response and the name of the ID in each description.
    """
    described = cloud.retrieve("ec2", operation, names[0], **{filter_argument: cloud.filters(*filters)})
    return read_own(cloud, described, NETWORK_COMPONENT, names[1], convert)


def tag_specifications(resource_type: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": resource_type, "Tags": tag_list(tags)}]


def update_tags(cloud: AwsClient, found: Found, properties: Properties) -> None:
    cloud.ec2.create_tags(Resources=[found.id], Tags=tag_list(properties["tags"]))


def network_kind(name: str, create: Callable[..., Found], delete: Callable[..., None], **more: Any) -> Kind:
    more.setdefault("update", lambda cloud, found, properties, _changed: update_tags(cloud, found, properties))
    more["updatable"] = frozenset({"tags", *more.get("updatable", ())})
    return Kind(name, create, delete, **more)
