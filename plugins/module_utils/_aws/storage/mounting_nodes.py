# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds nodes by the tags that show which file system each node mounts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..client import CLUSTER_TAG, AwsClient, ClusterError
from ..instances import group_of, tags_of


@dataclass(frozen=True)
class MountingNode:
    cluster: str
    vpc: str
    zone: str
    tags: Mapping[str, str]


def nodes_of_others(cloud: AwsClient, tag: str, file_system_id: str) -> list[MountingNode]:
    """Return the pending and running nodes of other clusters that mount this file system. See `mounting_nodes`."""
    return [node for node in mounting_nodes(cloud, tag, file_system_id) if node.cluster != cloud.cluster]


def mounting_nodes(cloud: AwsClient, tag: str, file_system_id: str) -> list[MountingNode]:
    """Return the pending and running nodes of all clusters that mount this file system.

    `tag` is the key of the tag that contains the file system ID.
    """
    filters = [{"Name": f"tag:{tag}", "Values": [file_system_id]}, {"Name": "instance-state-name", "Values": ["pending", "running"]}]
    reservations = cloud.retrieve("ec2", "describe_instances", "Reservations", Filters=filters)
    return [
        MountingNode(
            tags.get(CLUSTER_TAG, ""),
            instance["VpcId"],
            instance["Placement"]["AvailabilityZone"],
            tags,
        )
        for reservation in reservations
        for instance in reservation["Instances"]
        if (tags := tags_of(instance)) and group_of(tags.get(CLUSTER_TAG, ""), instance)
    ]


def refuse_in_use(file_system_id: str, found: Collection[MountingNode]) -> None:
    clusters = sorted({node.cluster for node in found})
    if clusters:
        raise ClusterError(f"{file_system_id} is used by nodes of other clusters ({', '.join(clusters)}). Delete those nodes first.")
