"""Writes the IAM policies that operators need into docs/policies, one for each playbook, from what units and modules declare.

`python tools/iam_policies.py` writes them for every cluster in every region of an account. `--cluster 'bert-*' --output FOLDER` narrows
them to the clusters whose names match; `--partition aws-cn` is for accounts in China.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.inventory.nodes import CALLS as INVENTORY
from ansible_collections.deeplearning.cluster.plugins.module_utils._data.calls import CALLS as BUCKET
from ansible_collections.deeplearning.cluster.plugins.module_utils._validators.calls import CALLS as VALIDATORS
from ansible_collections.deeplearning.cluster.plugins.module_utils.calls import Calls
from ansible_collections.deeplearning.cluster.plugins.module_utils.provisioning import ALL_UNITS
from ansible_collections.deeplearning.cluster.plugins.modules.host_keys_info import CALLS as HOST_KEYS
from ansible_collections.deeplearning.cluster.plugins.modules.ssh_authority import CALLS as AUTHORITY

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "policies"
# What `aws ssm start-session` asks for, by which hosts are reached with connection_path: session_manager
SESSIONS = ("ssm:StartSession", "ssm:TerminateSession")
# What `aws s3 sync` asks for, by which files go from the controller to S3
UPLOADS = ("s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject")
LONGEST = 6144  # characters of a managed policy, white space not counted
UNITS = [unit.calls for unit in ALL_UNITS]

# Actions for which AWS asks on the caller's behalf, by those of the calls that lead to them. Sources: the "dependent actions" of the
# Service Authorization Reference; Amazon EC2 Auto Scaling User Guide, "Launch template support"; Amazon EFS User Guide, "API permissions";
# FSx for Lustre User Guide, "Linking your file system to an S3 bucket".
_GROUPS = ("autoscaling:CreateAutoScalingGroup", "autoscaling:UpdateAutoScalingGroup")
_FILE_SYSTEMS = ("elasticfilesystem:CreateFileSystem", "fsx:CreateFileSystem")
IMPLIED: dict[str, tuple[str, ...]] = {
    "ec2:CreateNetworkInterface": ("elasticfilesystem:CreateMountTarget", "fsx:CreateFileSystem"),
    "ec2:DeleteNetworkInterface": ("elasticfilesystem:DeleteMountTarget",),
    "ec2:GetSecurityGroupsForVpc": ("fsx:CreateFileSystem",),
    "ec2:ModifyNetworkInterfaceAttribute": ("elasticfilesystem:ModifyMountTargetSecurityGroups",),
    "ec2:RunInstances": _GROUPS,
    "elasticfilesystem:TagResource": ("elasticfilesystem:CreateFileSystem",),
    "fsx:TagResource": ("fsx:CreateFileSystem", "fsx:CreateDataRepositoryAssociation"),
    "iam:AttachRolePolicy": ("fsx:CreateDataRepositoryAssociation",),
    "iam:CreateServiceLinkedRole": (*_GROUPS, *_FILE_SYSTEMS),
    "iam:PassRole": (*_GROUPS, "iam:AddRoleToInstanceProfile"),
    "kms:CreateGrant": _FILE_SYSTEMS,
    "kms:Decrypt": ("ssm:GetParameter",),
    "kms:DescribeKey": _FILE_SYSTEMS,
    "kms:Encrypt": ("ssm:PutParameter",),
    "route53:AssociateVPCWithHostedZone": ("ec2:CreateVpcEndpoint",),
    "s3:TagResource": ("s3:CreateBucket",),
    "ssm:AddTagsToResource": ("ssm:PutParameter",),
}


@dataclass(frozen=True)
class Account:
    """For which clusters of which partition policies are made."""

    cluster: str = "*"
    partition: str = "aws"

    def arns(self, *names: str) -> tuple[str, ...]:
        """ARNs of an account's resources, from C(service:resource); those of IAM have no region."""
        parts = [name.split(":", 1) for name in names]
        return tuple(f"arn:{self.partition}:{service}:{'' if service == 'iam' else '*'}:*:{resource}" for service, resource in parts)

    def public(self, name: str) -> str:
        """The ARN of resources that AWS, or whoever shares them, owns."""
        service, resource = name.split(":", 1)
        return f"arn:{self.partition}:{service}:*::{resource}"

    @property
    def new(self) -> dict[str, Any]:
        return {"StringLike": {"aws:RequestTag/deeplearning:cluster": self.cluster}}

    @property
    def own(self) -> dict[str, Any]:
        return {"StringLike": {"aws:ResourceTag/deeplearning:cluster": self.cluster}}


@dataclass(frozen=True)
class Scope:
    """Where actions are allowed. One action may need several scopes: AWS asks for each resource of a call."""

    name: str
    actions: tuple[str, ...]
    resources: tuple[str, ...] = ("*",)
    condition: dict[str, Any] = field(default_factory=dict)

    def statement(self, actions: Iterable[str]) -> dict[str, Any]:
        resources = self.resources[0] if len(self.resources) == 1 else list(self.resources)
        statement = {"Sid": self.name, "Effect": "Allow", "Action": sorted(actions), "Resource": resources}
        return {**statement, "Condition": self.condition} if self.condition else statement


CREATES = (
    "ec2:AllocateAddress",
    "ec2:CreateInternetGateway",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateNatGateway",
    "ec2:CreatePlacementGroup",
    "ec2:CreateRouteTable",
    "ec2:CreateSecurityGroup",
    "ec2:CreateSubnet",
    "ec2:CreateVpc",
    "ec2:CreateVpcEndpoint",
)
CHANGES = (
    "autoscaling:CreateOrUpdateTags",
    "autoscaling:DeleteAutoScalingGroup",
    "autoscaling:DeleteTags",
    "autoscaling:ResumeProcesses",
    "autoscaling:SuspendProcesses",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
    "autoscaling:UpdateAutoScalingGroup",
    "ec2:AssociateAddress",
    "ec2:AssociateRouteTable",
    "ec2:AttachInternetGateway",
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateLaunchTemplateVersion",
    "ec2:CreateRoute",
    "ec2:CreateTags",
    "ec2:DeleteInternetGateway",
    "ec2:DeleteLaunchTemplate",
    "ec2:DeleteNatGateway",
    "ec2:DeletePlacementGroup",
    "ec2:DeleteRoute",
    "ec2:DeleteRouteTable",
    "ec2:DeleteSecurityGroup",
    "ec2:DeleteSubnet",
    "ec2:DeleteVpc",
    "ec2:DeleteVpcEndpoints",
    "ec2:DetachInternetGateway",
    "ec2:DisassociateRouteTable",
    "ec2:GetConsoleOutput",
    "ec2:ModifyLaunchTemplate",
    "ec2:ModifyVpcAttribute",
    "ec2:ModifyVpcEndpoint",
    "ec2:ReleaseAddress",
    "ec2:ReplaceRoute",
    "ec2:ReplaceRouteTableAssociation",
    "ec2:RevokeSecurityGroupEgress",
    "ec2:RevokeSecurityGroupIngress",
    "elasticfilesystem:DeleteFileSystem",
    "elasticfilesystem:TagResource",
    "elasticfilesystem:UpdateFileSystem",
    "fsx:DeleteDataRepositoryAssociation",
    "fsx:DeleteFileSystem",
    "fsx:UpdateDataRepositoryAssociation",
    "fsx:UpdateFileSystem",
)
MOUNT_TARGETS = (
    "elasticfilesystem:CreateMountTarget",
    "elasticfilesystem:DeleteMountTarget",
    "elasticfilesystem:ModifyMountTargetSecurityGroups",
)
INTERFACES = ("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute")
LAUNCHED = (
    "capacity-reservation",
    "instance",
    "key-pair",
    "network-interface",
    "placement-group",
    "security-group",
    "spot-instances-request",
    "subnet",
    "volume",
)
SERVICE_ROLES = ("autoscaling", "spot", "elasticfilesystem", "fsx", "s3.data-source.lustre.fsx")


def scopes(account: Account) -> tuple[Scope, ...]:
    """All that is narrower than every resource."""
    run, own_template = "ec2:RunInstances", account.arns("ec2:launch-template/*")
    names = f"{account.cluster}-nodes-*"
    created = [action.split(":")[1] for action in (*CREATES, run)]
    via = [f"{service}.*.amazonaws.com*" for service in ("elasticfilesystem", "fsx", "ssm")]
    roles = {action for unit in UNITS for action in (*unit.reads, *unit.present, *unit.absent) if action.startswith("iam:")}
    return (
        Scope(
            "Create",
            (*CREATES, "autoscaling:CreateAutoScalingGroup", *_FILE_SYSTEMS, "fsx:CreateDataRepositoryAssociation"),
            condition=account.new,
        ),
        Scope("TagWhatIsCreated", ("ec2:CreateTags",), condition={"StringEquals": {"ec2:CreateAction": created}}),
        Scope(
            "TagFileSystemThatIsCreated",
            ("elasticfilesystem:TagResource",),
            condition={"StringEquals": {"elasticfilesystem:CreateAction": "CreateFileSystem"}},
        ),
        Scope("TagLustre", ("fsx:TagResource",), condition=account.new),
        Scope(
            "CreateInVpc",
            ("ec2:CreateNatGateway", "ec2:CreateRouteTable", "ec2:CreateSecurityGroup", "ec2:CreateSubnet", "ec2:CreateVpcEndpoint"),
            account.arns("ec2:vpc/*"),
        ),
        Scope(
            "CreateInSubnet",
            ("ec2:CreateNatGateway", "ec2:CreateVpcEndpoint", "ec2:ModifyVpcEndpoint"),
            account.arns("ec2:subnet/*", "ec2:elastic-ip/*", "ec2:route-table/*", "ec2:security-group/*"),
        ),
        Scope("Change", CHANGES, condition=account.own),
        Scope("AssociateAddress", ("ec2:AssociateAddress",), account.arns("ec2:instance/*", "ec2:network-interface/*")),
        Scope("MountTargets", MOUNT_TARGETS, account.arns("elasticfilesystem:file-system/*")),
        Scope("Interfaces", INTERFACES, account.arns("ec2:network-interface/*", "ec2:subnet/*", "ec2:security-group/*")),
        Scope("LaunchOwnTemplate", (run,), own_template, account.own),
        Scope(
            "LaunchFromTemplate",
            (run,),
            (*account.arns(*(f"ec2:{kind}/*" for kind in LAUNCHED)), account.public("ec2:image/*")),
            {"ArnLike": {"ec2:LaunchTemplate": own_template[0]}},
        ),
        # An instance profile that exists already may have any name
        Scope(
            "NodesRole",
            tuple(roles - {"iam:GetInstanceProfile"}),
            account.arns(f"iam:role/{names}", f"iam:instance-profile/{names}"),
        ),
        Scope(
            "PassNodesRole",
            ("iam:PassRole",),
            account.arns(f"iam:role/{names}"),
            {"StringLike": {"iam:PassedToService": "ec2.amazonaws.com*"}},
        ),
        Scope(
            "ServiceLinkedRoles",
            ("iam:CreateServiceLinkedRole",),
            account.arns("iam:role/aws-service-role/*"),
            {"StringEquals": {"iam:AWSServiceName": [f"{name}.amazonaws.com" for name in SERVICE_ROLES]}},
        ),
        Scope(
            "LustreRole",
            ("iam:AttachRolePolicy", "iam:PutRolePolicy"),
            account.arns("iam:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"),
        ),
        Scope("PublicParameters", ("ssm:GetParameters", "ssm:GetParametersByPath"), (account.public("ssm:parameter/aws/service/*"),)),
        Scope(
            "Authority",
            ("ssm:AddTagsToResource", *AUTHORITY.reads, *AUTHORITY.present, *AUTHORITY.absent),
            account.arns(f"ssm:parameter/deeplearning/{account.cluster}/ssh-authority"),
        ),
        # S3 knows no conditions on the tags of buckets, unless each bucket was told to
        Scope(
            "DataBuckets",
            ("s3:TagResource", *UPLOADS, *BUCKET.reads, *BUCKET.present),
            (f"arn:{account.partition}:s3:::{account.cluster}-*",),
        ),
        Scope("PrivateNames", ("route53:AssociateVPCWithHostedZone",), (f"arn:{account.partition}:route53:::hostedzone/*",)),
        Scope("ConnectToNodes", ("ssm:StartSession",), account.arns("ec2:instance/*"), account.own),
        Scope("ConnectBySsh", ("ssm:StartSession",), account.arns("ssm:document/AWS-StartSSHSession")),
        Scope("EndOwnSessions", ("ssm:TerminateSession",), account.arns("ssm:session/${aws:userid}-*")),
        Scope("KeysOfServices", ("kms:CreateGrant", "kms:Decrypt", "kms:Encrypt"), condition={"StringLike": {"kms:ViaService": via}}),
    )


def with_implied(actions: Iterable[str]) -> set[str]:
    """The actions of calls and those that AWS asks for because of them."""
    called = set(actions)
    return called | {action for action, causes in IMPLIED.items() if called & set(causes)}


def playbooks() -> dict[str, set[str]]:
    """The IAM actions by playbook; C(session_manager) is what all that connect need besides, where that is the way to the nodes."""
    reads = {action for calls in UNITS for action in calls.reads}
    validate = reads | set(VALIDATORS.reads)
    inventory = set(INVENTORY.reads)
    provision = inventory | validate | {action for calls in UNITS for action in calls.present}
    configure = inventory | _all((HOST_KEYS,)) | set(AUTHORITY.reads + AUTHORITY.present)
    absent = {action for calls in (*UNITS, AUTHORITY) for action in calls.absent}
    result = {
        "validate": inventory | validate,
        "provision": provision,
        "configure": configure,
        "train": provision | configure,
        "session_manager": set(SESSIONS),
        "dataset": inventory | _all((BUCKET,)) | set(UPLOADS),
        "status": inventory,
        "stop": inventory,
        "destroy": inventory | reads | set(AUTHORITY.reads) | absent,
    }
    return {name: with_implied(actions) for name, actions in result.items()}


def _all(declared: Iterable[Calls]) -> set[str]:
    return {action for calls in declared for action in (*calls.reads, *calls.present, *calls.absent)}


def statements(actions: set[str], account: Account) -> Iterator[dict[str, Any]]:
    """What allows the actions, and no more than AWS can tell apart."""
    narrow = scopes(account)
    rest = actions - {action for scope in narrow for action in scope.actions}
    if rest:
        yield Scope("Read", ()).statement(rest)
    for scope in narrow:
        allowed = actions & set(scope.actions)
        if allowed:
            yield scope.statement(allowed)


def policies(account: Account) -> dict[str, dict[str, Any]]:
    """Policies by the names of their files. What is too long for one is divided."""
    result = {}
    for name, actions in playbooks().items():
        parts: list[list[dict[str, Any]]] = [[]]
        for statement in statements(actions, account):
            if _length([*parts[-1], statement]) > LONGEST:
                parts.append([])
            parts[-1].append(statement)
        for number, part in enumerate(parts, start=1):
            result[name if len(parts) == 1 else f"{name}-{number}"] = _policy(part)
    return result


def _policy(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": parts}


def _length(parts: list[dict[str, Any]]) -> int:
    return len(json.dumps(_policy(parts), separators=(",", ":")))


def text(policy: dict[str, Any]) -> str:
    return json.dumps(policy, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", default="*", help="name of the cluster, or a pattern with * (default: every cluster)")
    parser.add_argument("--partition", default="aws", choices=["aws", "aws-cn", "aws-us-gov"])
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder that gets the files (default: docs/policies)")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    wanted = {f"{name}.json": text(policy) for name, policy in policies(Account(arguments.cluster, arguments.partition)).items()}
    for path in arguments.output.glob("*.json"):
        if path.name not in wanted and arguments.output == FOLDER:
            path.unlink()
    for name, content in wanted.items():
        (arguments.output / name).write_text(content)


if __name__ == "__main__":
    main()
