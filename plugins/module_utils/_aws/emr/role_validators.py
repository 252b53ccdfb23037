# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the roles of an EMR cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..client import AwsClient, ClientError, tag_dict
from ..component import Request
from ..error_codes import DENIED, error_code, is_missing
from ..message_parts import P
from ..network import adopted
from ..plan.resources import Found
from ..tags import EMR_COMPONENT
from ..validator import Validator
from . import definition, roles
from .network_validators import described_groups, described_subnet, named_groups

# Source: Amazon EMR Management Guide, "Amazon EMR managed policies".
SCOPED_POLICY, SCOPED_TAG = "AmazonEMRServicePolicy_v2", "for-use-with-amazon-emr-managed-policies"


class EmrRoles(Validator):
    """Checks that the roles exist, and that EMR and EC2 are allowed to assume these roles.

    Otherwise, the cluster terminates while it starts.
    """

    name = "emr_roles"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, options = request.cloud, request.options
        creates = options["emr_create_default_roles"]
        name = options["emr_service_role"]
        role = roles.described_role(cloud, name)
        if role:
            yield from _check_trust("emr_service_role", name, role, "elasticmapreduce")
        elif not (creates and name == definition.DEFAULT_SERVICE_ROLE):
            yield f"{P}emr_service_role: there is no role '{name}'. {_advice('role', name == definition.DEFAULT_SERVICE_ROLE)}"
        name = options["emr_instance_profile"]
        profile = next(iter(roles.described_profile(cloud, name)), None)
        if profile and profile["Roles"]:
            yield from _check_trust("emr_instance_profile", profile["Roles"][0]["RoleName"], profile["Roles"][0], "ec2")
        elif creates and name == definition.DEFAULT_PROFILE:
            return
        elif profile:
            yield f"{P}emr_instance_profile: {name} contains no role. Add a role to it, or specify another profile."
        else:
            yield (
                f"{P}emr_instance_profile: there is no instance profile '{name}'. {_advice('profile', name == definition.DEFAULT_PROFILE)}"
            )


def _advice(kind: str, is_default: bool) -> str:
    return f"To create it, set {P}emr_create_default_roles: true." if is_default else f"Create this {kind}, or specify another {kind}."


def _check_trust(option: str, name: str, role: Mapping[str, Any], service: str) -> Iterator[str]:
    document = role.get("AssumeRolePolicyDocument")
    if document and not definition.trusts(document, service):
        yield (
            f"{P}{option}: the trust policy of the role '{name}' does not allow {service}.amazonaws.com to assume it. "
            "Change the trust policy, or specify another role."
        )


class EmrServicePolicy(Validator):
    """Checks the tags that EMR needs if its role has the scoped AWS managed policy, which allows EMR to use only tagged resources.

    If the user is not allowed to list the role's policies, the validator reports nothing.
    """

    name = "emr_service_policy"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        role = request.options["emr_service_role"].rpartition("/")[2]
        if not _has_scoped_policy(request.cloud, role):
            return
        reason = f"the policy {SCOPED_POLICY} of the role '{role}' ({P}emr_service_role) allows EMR to use only resources with this tag"
        if (request.options["tags"] or {}).get(SCOPED_TAG) != "true":
            yield f"{P}tags: {SCOPED_TAG} is not 'true', but {reason}. Add it to the tags of the cluster."
        for option, identifier, resource in _used(request):
            if tag_dict(resource.get("Tags", [])).get(SCOPED_TAG) != "true":
                yield (
                    f"{P}{option}: {identifier} has no tag {SCOPED_TAG}: 'true', but {reason}. "
                    f"Add it: aws ec2 create-tags --resources {identifier} --tags Key={SCOPED_TAG},Value=true"
                )


def _has_scoped_policy(cloud: AwsClient, role: str) -> bool:
    try:
        attached = cloud.retrieve_once("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=role)
    except ClientError as error:
        if not is_missing(error) and error_code(error) not in DENIED:
            raise
        return False
    return any(item["PolicyName"] == SCOPED_POLICY for item in attached)


def _used(request: Request) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the resources that EMR uses for the cluster.

    These are the subnet, the specified security groups, and the VPC if EMR creates security groups in it.
    """
    subnet, groups = described_subnet(request), described_groups(request)
    if subnet:
        yield "emr_subnet_id", subnet["SubnetId"], subnet
    if subnet and not request.options["emr_security_group_ids"].get("master"):
        for vpc in adopted.vpcs(request.cloud, subnet["VpcId"]):
            yield "emr_subnet_id", vpc["VpcId"], vpc
    for option, identifier in named_groups(request.options):
        if identifier in groups:
            yield option, identifier, groups[identifier]
