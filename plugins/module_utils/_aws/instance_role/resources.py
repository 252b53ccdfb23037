# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, creates, changes and deletes the nodes' IAM role and instance profile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Mapping

from ..client import CLUSTER_TAG, AwsClient, ClientError, ClusterError, error_code, is_missing, read_concurrently, tag_dict, tag_list
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties
from ..policy_documents import PolicyDocument
from .definition import INSTANCE_PROFILE, PATH, ROLE, name

POLICY_NAME = "nodes"


def read(cloud: AwsClient) -> list[Found]:
    """Return the role and the instance profile of this cluster.

    Raises ClusterError if the role or the profile exists without the cluster's tag.
    """
    return read_concurrently([lambda: _role(cloud), lambda: _profile(cloud)])


def _role(cloud: AwsClient) -> Iterator[Found]:
    role_name = name(cloud.cluster, cloud.region)
    try:
        role = cloud.iam.get_role(RoleName=role_name)["Role"]
    except ClientError as error:
        if is_missing(error):
            return
        raise
    _refuse_foreign(cloud, f"role {role_name}", role.get("Tags", []))
    yield Found(
        ROLE,
        role_name,
        {
            "name": role_name,
            "trust": PolicyDocument(role["AssumeRolePolicyDocument"]),
            "permissions_boundary": role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
            "policy": _policy(cloud, role_name),
            "tags": cloud.comparable_tags(role.get("Tags", [])),
        },
    )


def _policy(cloud: AwsClient, role_name: str) -> dict[str, Any] | None:
    try:
        return PolicyDocument(cloud.iam.get_role_policy(RoleName=role_name, PolicyName=POLICY_NAME)["PolicyDocument"])
    except ClientError as error:
        if is_missing(error):
            return None
        raise


def _profile(cloud: AwsClient) -> Iterator[Found]:
    for profile in _described_profile(cloud, name(cloud.cluster, cloud.region)):
        _refuse_foreign(cloud, f"instance profile {profile['InstanceProfileName']}", profile.get("Tags", []))
        yield _found_profile(cloud, profile)


def read_adopted(cloud: AwsClient, profile_name: str) -> list[Found]:
    """Return the adopted instance profile, if it exists."""
    return [replace(_found_profile(cloud, profile), adopted=True) for profile in _described_profile(cloud, profile_name)]


def _described_profile(cloud: AwsClient, profile_name: str) -> list[dict[str, Any]]:
    try:
        return [cloud.iam.get_instance_profile(InstanceProfileName=profile_name)["InstanceProfile"]]
    except ClientError as error:
        if is_missing(error) or error_code(error) == "ValidationError":
            return []
        raise


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


def _refuse_foreign(cloud: AwsClient, what: str, tags: list[dict[str, str]]) -> None:
    if tag_dict(tags).get(CLUSTER_TAG) != cloud.cluster:
        raise ClusterError(f"The {what} exists but is not tagged {CLUSTER_TAG}={cloud.cluster}. Delete it, or choose another cluster name.")


def _create_role(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    cloud.create(
        "iam",
        "create_role",
        Path=PATH,
        RoleName=properties["name"],
        AssumeRolePolicyDocument=json.dumps(properties["trust"]),
        Description=f"Nodes of the training cluster {cloud.cluster}",
        Tags=tag_list(properties["tags"]),
        **({"PermissionsBoundary": boundary} if (boundary := properties.get("permissions_boundary")) else {}),
    )
    found = Found(address, properties["name"], properties)
    cloud.once_allowed(partial(_update_role, cloud, found, properties, frozenset({"policy"})))
    return found


def _update_role(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    if "permissions_boundary" in changed:
        cloud.iam.put_role_permissions_boundary(RoleName=found.id, PermissionsBoundary=properties["permissions_boundary"])
    if "policy" in changed:
        cloud.once_visible(
            cloud.iam.put_role_policy, RoleName=found.id, PolicyName=POLICY_NAME, PolicyDocument=json.dumps(properties["policy"])
        )
    if "tags" in changed:
        cloud.iam.tag_role(RoleName=found.id, Tags=tag_list(properties["tags"]))


def _delete_role(cloud: AwsClient, found: Found) -> None:
    # Users or services, such as Systems Manager Quick Setup, may have attached policies to the role
    for attached in cloud.retrieve("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=found.id):
        cloud.iam.detach_role_policy(RoleName=found.id, PolicyArn=attached["PolicyArn"])
    for policy_name in cloud.retrieve("iam", "list_role_policies", "PolicyNames", RoleName=found.id):
        cloud.iam.delete_role_policy(RoleName=found.id, PolicyName=policy_name)
    cloud.once_unused(cloud.iam.delete_role, RoleName=found.id)


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
        _create_role,
        _delete_role,
        update=_update_role,
        updatable=frozenset({"permissions_boundary", "policy", "tags"}),
        deleted_after=("instance_profile",),
        advice="The collection never changes a trust policy. Restore the former trust policy, or delete the role and run again.",
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
