# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Who else uses shared storage: nodes carry the ids of what they mount on their tags."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import CLUSTER_TAG, AwsClient, ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instances import group_of, tags_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.tags import ACCESS_POINT_TAG, FILE_SYSTEM_TLS_TAG


@dataclass(frozen=True)
class User:
    """A node."""

    cluster: str
    vpc: str
    zone: str
    tls: str | None
    """What its tag says about TLS."""
    access_point: str | None


def others(cloud: AwsClient, tag: str, file_system_id: str) -> list[User]:
    """The live nodes of other clusters that mount a file system, whose id is their C(tag)."""
    return [user for user in users(cloud, tag, file_system_id) if user.cluster != cloud.cluster]


def users(cloud: AwsClient, tag: str, file_system_id: str) -> list[User]:
    """The live nodes of all clusters that mount a file system, whose id is their C(tag)."""
    filters = [{"Name": f"tag:{tag}", "Values": [file_system_id]}, {"Name": "instance-state-name", "Values": ["pending", "running"]}]
    reservations = cloud.retrieve("ec2", "describe_instances", "Reservations", Filters=filters)
    return [
        User(
            tags.get(CLUSTER_TAG, ""),
            instance["VpcId"],
            instance["Placement"]["AvailabilityZone"],
            tags.get(FILE_SYSTEM_TLS_TAG),
            tags.get(ACCESS_POINT_TAG),
        )
        for reservation in reservations
        for instance in reservation["Instances"]
        if (tags := tags_of(instance)) and group_of(tags.get(CLUSTER_TAG, ""), instance)
    ]


def refuse_in_use(file_system_id: str, found: Collection[User]) -> None:
    """Raises ClusterError if there are users."""
    clusters = sorted({user.cluster for user in found})
    if clusters:
        raise ClusterError(f"{file_system_id} is used by nodes of cluster {', '.join(clusters)}. Delete those nodes first.")
