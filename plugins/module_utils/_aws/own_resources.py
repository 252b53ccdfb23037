# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads resources that have the tags of a cluster.

Anyone who may tag resources can give these tags to any resource, so a description may lack what all resources of a cluster have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Mapping, TypeVar

from .client import AwsClient, ClusterError, tag_dict
from .plan.resources import Found
from .tags import CLUSTER_TAG, COMPONENT_TAG, KEY_TAG

Description = TypeVar("Description", bound=Mapping[str, Any])


def with_keys(cloud: AwsClient, described: Iterable[Description], component: str) -> Iterator[tuple[str, Description]]:
    """Yield the key and the description of each resource whose tags assign it to a component of this cluster."""
    for item in described:
        tags = tag_dict(item.get("Tags", []))
        if tags.get(CLUSTER_TAG) == cloud.cluster and tags.get(COMPONENT_TAG) == component and KEY_TAG in tags:
            yield tags[KEY_TAG], item


def read_own(
    cloud: AwsClient,
    described: Iterable[Description],
    component: str,
    id_name: str,
    convert: Callable[[AwsClient, str, Description], Found | None],
) -> Iterator[Found]:
    """Yield the resources of a component. `id_name` is the name of the ID in the descriptions.

    `convert` returns the resource for a key and a description, or None to skip it.
    """
    for key, item in with_keys(cloud, described, component):
        with readable(cloud, item[id_name]):
            found = convert(cloud, key, item)
        if found:
            yield found


@contextlib.contextmanager
def readable(cloud: AwsClient, id_: str) -> Iterator[None]:
    """Raise ClusterError with the ID of a resource if the code in this context cannot read its description."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise ClusterError(
            f"{id_}: the tags assign this resource to {cloud.cluster}, but its settings are not those of a resource of a cluster "
            f"({type(error).__name__}: {error}). If it does not belong to the cluster, remove its tag {CLUSTER_TAG}."
        ) from error
