# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""IAM roles that belong to a cluster. Each of them has one inline policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Mapping

from ..client import CLUSTER_TAG, AwsClient, ClientError, ClusterError, if_exists, tag_dict, tag_list
from ..error_codes import is_missing
from ..plan.resources import Address, Found, Properties
from ..policy_documents import PolicyDocument

PATH = "/deeplearning/"
ADVICE = "The collection never changes a trust policy. Restore the former trust policy, or delete the role and run again."


@dataclass(frozen=True)
class OwnRole:
    """A role of the cluster: its address, the name of its inline policy, and what it is for."""

    address: Address
    policy_name: str
    purpose: str

    def read(self, cloud: AwsClient, name: str) -> Iterator[Found]:
        """Yield the role if it exists. Raises ClusterError if it exists without the cluster's tag."""
        try:
            answer = cloud.iam.get_role(RoleName=name)
        except ClientError as error:
            cloud.learn_time(error.response)
            if is_missing(error):
                return
            raise
        cloud.learn_time(answer)
        role = answer["Role"]
        refuse_foreign(cloud, f"role {name}", role.get("Tags", []))
        properties = {
            "name": name,
            "trust": PolicyDocument(role["AssumeRolePolicyDocument"]),
            "permissions_boundary": role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
            "policy": self._policy(cloud, name),
            "tags": cloud.comparable_tags(role.get("Tags", [])),
        }
        yield Found(self.address, name, properties, {"arn": role["Arn"], "id": role["RoleId"]})

    def deleted(self, name: str, trust: Mapping[str, Any]) -> Found:
        """Return a role that somebody has deleted while what uses it still exists. A change creates the role anew, with this trust."""
        properties = {"name": name, "trust": trust, "permissions_boundary": None, "policy": None, "tags": {}}
        return Found(self.address, name, properties)

    def _policy(self, cloud: AwsClient, name: str) -> dict[str, Any] | None:
        answer = if_exists(cloud.iam.get_role_policy, RoleName=name, PolicyName=self.policy_name)
        return PolicyDocument(answer["PolicyDocument"]) if answer else None

    def create(self, cloud: AwsClient, address: Address, properties: Properties) -> Found:
        created = cloud.create(
            "iam",
            "create_role",
            Path=PATH,
            RoleName=properties["name"],
            AssumeRolePolicyDocument=json.dumps(properties["trust"]),
            Description=f"{self.purpose} {cloud.cluster}",
            Tags=tag_list(properties["tags"]),
            **({"PermissionsBoundary": boundary} if (boundary := properties.get("permissions_boundary")) else {}),
        )["Role"]
        found = Found(address, properties["name"], properties, {"arn": created["Arn"], "id": created["RoleId"]})
        cloud.once_allowed(partial(self.update, cloud, found, properties, frozenset({"policy"})))
        return found

    def ensure(self, cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> Found:
        """Change the role, or create it anew if somebody has deleted it. Return it."""
        if "arn" not in found.attributes:
            return self.create(cloud, found.address, properties)
        self.update(cloud, found, properties, changed)
        return found

    def update(self, cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
        if "permissions_boundary" in changed:
            cloud.iam.put_role_permissions_boundary(RoleName=found.id, PermissionsBoundary=properties["permissions_boundary"])
        if "policy" in changed:
            cloud.once_visible(
                cloud.iam.put_role_policy, RoleName=found.id, PolicyName=self.policy_name, PolicyDocument=json.dumps(properties["policy"])
            )
        if "tags" in changed:
            cloud.iam.tag_role(RoleName=found.id, Tags=tag_list(properties["tags"]))

    def delete(self, cloud: AwsClient, found: Found) -> None:
        if "arn" in found.attributes:
            self.delete_policies(cloud, found)
            cloud.once_unused(cloud.iam.delete_role, RoleName=found.id)

    def delete_policies(self, cloud: AwsClient, found: Found) -> None:
        if "arn" not in found.attributes:
            return
        # Users or services, such as Systems Manager Quick Setup, may have attached policies to the role
        for attached in cloud.retrieve("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=found.id):
            cloud.iam.detach_role_policy(RoleName=found.id, PolicyArn=attached["PolicyArn"])
        for policy_name in cloud.retrieve("iam", "list_role_policies", "PolicyNames", RoleName=found.id):
            cloud.iam.delete_role_policy(RoleName=found.id, PolicyName=policy_name)


def refuse_foreign(cloud: AwsClient, what: str, tags: Sequence[Mapping[str, str]]) -> None:
    """Raise ClusterError if a resource with the cluster's name lacks the cluster's tag."""
    if tag_dict(tags).get(CLUSTER_TAG) != cloud.cluster:
        raise ClusterError(f"The {what} exists but is not tagged {CLUSTER_TAG}={cloud.cluster}. Delete it, or choose another cluster name.")
