# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, creates, changes and deletes the nodes' IAM role and instance profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Mapping

from ..client import AwsClient, if_exists, read_concurrently, tag_list
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties
from .definition import INSTANCE_PROFILE, ROLE, name
from .own_role import ADVICE, PATH, OwnRole, refuse_foreign

NODES_ROLE = OwnRole(ROLE, "nodes", "Nodes of the training cluster")


def read(cloud: AwsClient) -> list[Found]:
    """Return the role and the instance profile of this cluster.

    Raises ClusterError if the role or the profile exists without the cluster's tag.
    """
    return read_concurrently([lambda: NODES_ROLE.read(cloud, name(cloud.cluster, cloud.region)), lambda: _profile(cloud)])


def _profile(cloud: AwsClient) -> Iterator[Found]:
    for profile in _described_profile(cloud, name(cloud.cluster, cloud.region)):
        refuse_foreign(cloud, f"instance profile {profile['InstanceProfileName']}", profile.get("Tags", []))
        yield _found_profile(cloud, profile)


def read_adopted(cloud: AwsClient, profile_name: str) -> list[Found]:
    return [replace(_found_profile(cloud, profile), adopted=True) for profile in _described_profile(cloud, profile_name)]


def _described_profile(cloud: AwsClient, profile_name: str) -> list[dict[str, Any]]:
    answer = if_exists(cloud.iam.get_instance_profile, "ValidationError", InstanceProfileName=profile_name)
    return [answer["InstanceProfile"]] if answer else []


def _found_profile(cloud: AwsClient, profile: Mapping[str, Any]) -> Found:
    return Found(
        INSTANCE_PROFILE,
        profile["InstanceProfileName"],
        {
            "name": profile["InstanceProfileName"],
            "role": next((role["RoleName"] for role in profile["Roles"]), None),
            "tags": cloud.comparable_tags(profile.get("Tags", [])),
        },
        {"arn": profile["Arn"], "role_arn": next((role["Arn"] for role in profile["Roles"]), None)},
    )


def _create_profile(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    created = cloud.create(
        "iam", "create_instance_profile", Path=PATH, InstanceProfileName=properties["name"], Tags=tag_list(properties["tags"])
    )["InstanceProfile"]
    found = Found(address, properties["name"], {**properties, "role": None}, {"arn": created["Arn"]})
    cloud.once_allowed(partial(_update_profile, cloud, found, properties, frozenset({"role"})))
    return found


def _update_profile(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    if "role" in changed:
        if found.properties["role"]:
            cloud.iam.remove_role_from_instance_profile(InstanceProfileName=found.id, RoleName=found.properties["role"])
        cloud.once_visible(cloud.iam.add_role_to_instance_profile, InstanceProfileName=found.id, RoleName=properties["role"])
    if "tags" in changed:
        cloud.iam.tag_instance_profile(InstanceProfileName=found.id, Tags=tag_list(properties["tags"]))


def _delete_profile(cloud: AwsClient, found: Found) -> None:
    if found.properties["role"]:
        cloud.once_unused(cloud.iam.remove_role_from_instance_profile, InstanceProfileName=found.id, RoleName=found.properties["role"])
    cloud.once_unused(cloud.iam.delete_instance_profile, InstanceProfileName=found.id)


KINDS = (
    Kind(
        "role",
        NODES_ROLE.create,
        NODES_ROLE.delete,
        update=NODES_ROLE.update,
        updatable=frozenset({"permissions_boundary", "policy", "tags"}),
        deleted_after=("instance_profile",),
        advice=ADVICE,
    ),
    Kind(
        "instance_profile",
        _create_profile,
        _delete_profile,
        update=_update_profile,
        updatable=frozenset({"role", "tags"}),
        deleted_after=("auto_scaling_group",),
    ),
)
