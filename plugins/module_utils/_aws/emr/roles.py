# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM roles and the instance profile of EMR clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from ..client import AwsClient, ClientError, ClusterError, if_exists
from ..component import Request
from ..error_codes import error_code
from ..message_parts import P
from ..plan.resources import Address, Found, Properties
from . import definition


def read_roles(request: Request) -> Iterator[Found]:
    """Yield the existing default roles and the existing default instance profile, if the run is allowed to create them.

    Roles and profiles count as adopted. The exceptions are a role without a policy and a profile without a role, because an interrupted
    run may have left them.
    """
    cloud, options = request.cloud, request.options
    if not request.present or not options["emr_create_default_roles"]:
        return
    for wanted in definition.wanted_roles(options, cloud.region):
        name = wanted.properties["name"]
        if wanted.address == definition.INSTANCE_PROFILE:
            for profile in described_profile(cloud, name):
                role = next((each["RoleName"] for each in profile["Roles"]), None)
                yield Found(wanted.address, name, {"name": name, "role": role}, adopted=role is not None)
        elif described_role(cloud, name):
            attached = [
                each["PolicyArn"] for each in cloud.retrieve("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=name)
            ]
            policy = wanted.properties["policy"] if wanted.properties["policy"] in attached else None
            yield Found(wanted.address, name, {"name": name, "policy": policy}, adopted=bool(attached))


def described_role(cloud: AwsClient, name: str) -> dict[str, Any] | None:
    answer = if_exists(cloud.iam.get_role, RoleName=name.rpartition("/")[2])
    return answer["Role"] if answer else None


def described_profile(cloud: AwsClient, name: str) -> list[dict[str, Any]]:
    """Return a list that contains the instance profile with this name or ARN, or an empty list if it does not exist."""
    answer = if_exists(cloud.iam.get_instance_profile, InstanceProfileName=name.rpartition("/")[2])
    return [answer["InstanceProfile"]] if answer else []


def create_role(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    cloud.create("iam", "create_role", RoleName=properties["name"], AssumeRolePolicyDocument=json.dumps(properties["trust"]))
    found = Found(address, properties["name"], {"name": properties["name"], "policy": properties["policy"]})
    cloud.created.add(found.id)
    cloud.once_allowed(partial(attach_policy, cloud, found, properties, frozenset()))
    return found


def attach_policy(cloud: AwsClient, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    try:
        cloud.once_visible(cloud.iam.attach_role_policy, RoleName=found.id, PolicyArn=properties["policy"])
    except ClientError as error:
        if error_code(error) != "PolicyNotAttachable":
            raise
        raise ClusterError(
            f"{P}emr_create_default_roles: IAM does not allow attaching {properties['policy']} to {found.id}. Create your own roles, and "
            f"specify them with {P}emr_service_role and {P}emr_instance_profile."
        ) from error


def create_profile(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    cloud.create("iam", "create_instance_profile", InstanceProfileName=properties["name"])
    cloud.created.add(properties["name"])
    found = Found(address, properties["name"], properties)
    cloud.once_allowed(partial(add_role, cloud, found, properties, frozenset()))
    return found


def add_role(cloud: AwsClient, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    cloud.once_visible(cloud.iam.add_role_to_instance_profile, InstanceProfileName=found.id, RoleName=properties["role"])
