# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Identifies nodes by a tag that only AWS can set, and checks the other tags of nodes, Auto Scaling groups and EMR clusters.

Performs no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ..instances import GROUP_TAG, tags_of
from ..node_names import MASTER, MASTER_NUMBER, NODE_TYPES, NUMBER_TAG, group_name
from ..node_service import Instance, NodeService
from ..storage.kinds import TAG_KEYS, TAGS
from ..tags import CLUSTER_TAG

NUMBER = re.compile(r"[1-9][0-9]{0,4}")


class MembershipError(ValueError):
    """Nodes cannot be identified, or someone has changed their tags. The message contains the instance IDs."""


def filters(cluster: str) -> list[dict[str, Any]]:
    """Return the EC2 filters for the instances of the cluster's Auto Scaling groups."""
    return [{"Name": f"tag:{GROUP_TAG}", "Values": [group_name(cluster, group) for group in NODE_TYPES]}]


def with_storage_tags(instance: Instance, tags: Mapping[str, str]) -> Instance:
    """Return the instance, but replace its storage tags with the storage tags of its Auto Scaling group or EMR cluster.

    Other users may be allowed to change the tags of instances, but not the tags of Auto Scaling groups or EMR clusters. New nodes inherit
    the tags of their group or EMR cluster. These tags stay the same while nodes that mount the storage are running.
    """
    own = {key: value for key, value in tags_of(instance).items() if key not in TAG_KEYS}
    inherited = {key: value for key, value in tags.items() if key in TAG_KEYS}
    return {**instance, "Tags": [{"Key": key, "Value": value} for key, value in {**own, **inherited}.items()]}


def number_of(instance: Mapping[str, Any]) -> int | None:
    """Return the node number from the tags of an instance, or None if the tags contain no valid number."""
    text = tags_of(instance).get(NUMBER_TAG, "")
    return int(text) if NUMBER.fullmatch(text) else None


def problems(cluster: str, instances: Iterable[Instance], service: NodeService) -> list[str]:
    """Return messages about problems with the cluster's running instances. Each message contains instance IDs and advice."""
    members = _members(cluster, instances, service)
    found = [text for group, item in members for text in _tag_problems(cluster, service.launcher(cluster, group), group, item)]
    masters = sorted(item["InstanceId"] for group, item in members if group == MASTER)
    if len(masters) > 1:
        found.append(
            f"Instances {' and '.join(masters)}: more than one instance is running in {service.launcher(cluster, MASTER)}, "
            f"but a cluster has only one master. {service.second_master}"
        )
    numbered: dict[int, list[str]] = {}
    for group, item in members:
        number = number_of(item)
        if group != MASTER and number:
            numbered.setdefault(number, []).append(item["InstanceId"])
    for number, holders in sorted(numbered.items()):
        if len(holders) > 1:
            found.append(
                f"Instances {' and '.join(sorted(holders))}: each has the number {number} in its tag {NUMBER_TAG}. "
                f"Find out who changed the tag. Run {_delete(NUMBER_TAG, 'INSTANCE')} "
                f"for the instance that is not worker {number}, and provision the cluster again."
            )
    return found


def check(cluster: str, instances: Collection[Instance], service: NodeService) -> None:
    """Raise MembershipError if the cluster's running instances have problems.

    The instances must have the storage tags of their group or EMR cluster (see `with_storage_tags`).
    """
    found = [*problems(cluster, instances, service), *_storage_problems(cluster, instances, service)]
    if found:
        raise MembershipError("\n".join(found))


def _members(cluster: str, instances: Iterable[Instance], service: NodeService) -> list[tuple[str, Instance]]:
    return [(group, item) for item in instances if (group := service.group_of(cluster, item))]


def _storage_problems(cluster: str, instances: Iterable[Instance], service: NodeService) -> Iterator[str]:
    launchers = {service.launcher(cluster, group): tags_of(item) for group, item in _members(cluster, instances, service)}
    for launcher, tags in launchers.items():
        for tag in TAGS:
            try:
                if tag.key in tags:
                    tag.check(tags[tag.key])
            except ValueError as error:
                yield f"{launcher}, tag {tag.key}: {error}. Find out who changed the tag, and correct its value."


def _tag_problems(cluster: str, launcher: str, group: str, instance: Instance) -> Iterator[str]:
    tags, name = tags_of(instance), instance["InstanceId"]
    if tags.get(CLUSTER_TAG) != cluster:
        yield (
            f"Instance {name}: the tag {CLUSTER_TAG} is {tags.get(CLUSTER_TAG)!r}, but {launcher} launched the instance. "
            f"Set the tag to {cluster}, or choose another cluster name if {launcher} does not belong to the cluster."
        )
    text, number = tags.get(NUMBER_TAG), number_of(instance)
    if text is not None and (number is None or (number == MASTER_NUMBER) != (group == MASTER)):
        expected = f"the master has number {MASTER_NUMBER}" if group == MASTER else f"worker numbers start at {MASTER_NUMBER + 1}"
        yield (
            f"Instance {name}: the tag {NUMBER_TAG} is {text!r}, but {expected}. "
            f"Find out who changed the tag. Delete the tag with {_delete(NUMBER_TAG, name)}, and provision the cluster again."
        )


def _delete(key: str, instance: str) -> str:
    return f"aws ec2 delete-tags --resources {instance} --tags Key={key}"
