"""VPC Block Public Access: the mode of an account and region, and exclusions for VPCs and subnets. The local cloud blocks no traffic."""

from __future__ import annotations

import secrets
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from ..context import CLOUD
from ..override import override


@override(EC2Response)
def describe_vpc_block_public_access_options(self: EC2Response) -> ActionResult:
    return ActionResult({"VpcBlockPublicAccessOptions": _options(self)})


@override(EC2Response)
def modify_vpc_block_public_access_options(self: EC2Response) -> ActionResult:
    """Change the mode. On AWS, this takes minutes."""
    mode = self._get_param("InternetGatewayBlockMode")
    _options(self).update(InternetGatewayBlockMode=mode, State="update-complete", LastUpdateTimestamp=CLOUD.utcnow())
    return ActionResult({"VpcBlockPublicAccessOptions": _options(self)})


@override(EC2Response)
def create_vpc_block_public_access_exclusion(self: EC2Response) -> ActionResult:
    """Exclude a VPC or a subnet. Raises the EC2 error unless the request names exactly one resource, which must exist."""
    vpc, subnet = self._get_param("VpcId"), self._get_param("SubnetId")
    if bool(vpc) == bool(subnet):
        raise EC2ClientError("InvalidParameterCombination", "Specify either a VPC or a subnet.")
    found: Any = self.ec2_backend.get_subnet(subnet) if subnet else self.ec2_backend.get_vpc(vpc)
    if found is None:
        raise EC2ClientError("InvalidVpcID.NotFound", f"The vpc ID '{vpc}' does not exist")
    kind = "subnet" if subnet else "vpc"
    exclusion = {
        "ExclusionId": f"vpcbpa-exclude-0{secrets.token_hex(8)}",
        "InternetGatewayExclusionMode": self._get_param("InternetGatewayExclusionMode"),
        "ResourceArn": f"arn:aws:ec2:{self.region}:{self.current_account}:{kind}/{found.id}",
        "State": "create-complete",
        "CreationTimestamp": CLOUD.utcnow(),
    }
    _exclusions(self).append(exclusion)
    return ActionResult({"VpcBlockPublicAccessExclusion": exclusion})


@override(EC2Response)
def describe_vpc_block_public_access_exclusions(self: EC2Response) -> ActionResult:
    wanted = self._get_param("ExclusionIds", [])
    found = [each for each in _exclusions(self) if not wanted or each["ExclusionId"] in wanted]
    return ActionResult({"VpcBlockPublicAccessExclusions": found})


def _options(response: EC2Response) -> dict[str, Any]:
    default = {
        "AwsAccountId": response.current_account,
        "AwsRegion": response.region,
        "State": "default-state",
        "InternetGatewayBlockMode": "off",
        "ManagedBy": "account",
        "ExclusionsAllowed": "allowed",
    }
    options: dict[str, Any] = response.ec2_backend.__dict__.setdefault("block_public_access", default)
    return options


def _exclusions(response: EC2Response) -> list[dict[str, Any]]:
    exclusions: list[dict[str, Any]] = response.ec2_backend.__dict__.setdefault("block_public_access_exclusions", [])
    return exclusions
