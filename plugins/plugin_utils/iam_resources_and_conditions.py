# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The resources and the conditions to which IAM policies restrict actions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..module_utils._aws.dataset_bucket.iam_actions import IAM_ACTIONS as BUCKET
from ..module_utils._aws.emr import record
from ..module_utils._aws.emr.definition import DEFAULT_PROFILE, DEFAULT_SERVICE_ROLE
from ..module_utils._aws.emr.iam_actions import RECORD as EMR_RECORD
from ..module_utils._aws.iam_actions import IamActions
from ..module_utils._aws.idle.function import HOLD as HOLD_TAG
from ..module_utils._aws.idle.iam_actions import HOLD
from ..module_utils._aws.instance_role.own_role import PATH
from ..module_utils._aws.lease.definition import schedule_group
from ..module_utils._aws.node_names import MASTER, NUMBER_TAG, WORKERS
from ..module_utils._aws.pricing.iam_actions import PRICES
from ..module_utils._aws.provision.components import ALL_COMPONENTS
from ..module_utils._aws.ssh_authority.iam_actions import AUTHORITY, AUTHORITY_INFO
from ..module_utils._aws.ssh_authority.kms_key import alias
from ..module_utils._aws.ssh_authority.parameter import parameter_name, public_parameter_name
from .iam_account import Account

# Actions of `aws s3 sync`, which copies files from the controller to S3
UPLOADS = ("s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject")
COMPONENT_ACTIONS = [*(component.iam_actions for component in ALL_COMPONENTS), PRICES]

GROUPS = ("autoscaling:CreateAutoScalingGroup", "autoscaling:UpdateAutoScalingGroup")
FILE_SYSTEMS = ("elasticfilesystem:CreateFileSystem", "fsx:CreateFileSystem")
RUN_JOB_FLOW = ("elasticmapreduce:RunJobFlow",)
SCHEDULES = ("scheduler:CreateSchedule", "scheduler:UpdateSchedule")
DELETE_FUNCTION = ("lambda:DeleteFunction",)


@dataclass(frozen=True)
class Scope:
    """The resources on which actions are allowed, and the condition under which they are allowed.

    AWS checks each resource of an API call, so an action may need several scopes.
    """

    name: str
    actions: tuple[str, ...]
    resources: tuple[str, ...] = ("*",)
    condition: dict[str, Any] = field(default_factory=dict)
    # The scope applies only if one of these actions is allowed as well.
    because: tuple[str, ...] = ()
    # The scope does not apply if one of these actions is allowed as well, because another scope then allows more.
    unless: tuple[str, ...] = ()

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
    "autoscaling:DeleteAutoScalingGroup",
    "autoscaling:DeleteNotificationConfiguration",
    "autoscaling:DeleteTags",
    "autoscaling:PutNotificationConfiguration",
    "autoscaling:ResumeProcesses",
    "autoscaling:SuspendProcesses",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
    "ec2:AssociateRouteTable",
    "ec2:AttachInternetGateway",
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateLaunchTemplateVersion",
    "ec2:CreateRoute",
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
    "elasticfilesystem:DeleteAccessPoint",
    "elasticfilesystem:DeleteFileSystem",
    "elasticfilesystem:DeleteFileSystemPolicy",
    "elasticfilesystem:PutFileSystemPolicy",
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
EMR_CHANGES = (
    "elasticmapreduce:AddInstanceGroups",
    "elasticmapreduce:AddJobFlowSteps",
    "elasticmapreduce:ModifyInstanceGroups",
    "elasticmapreduce:PutAutoTerminationPolicy",
    "elasticmapreduce:RemoveAutoTerminationPolicy",
    "elasticmapreduce:SetTerminationProtection",
    "elasticmapreduce:TerminateJobFlows",
)
INTERFACES = ("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute")
# The resources of a launch, except images and security groups
LAUNCHED = (
    "capacity-reservation",
    "instance",
    "key-pair",
    "network-interface",
    "placement-group",
    "spot-instances-request",
    "subnet",
    "volume",
)
DOCUMENT_CHECK = {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}}
SERVICE_ROLES = ("autoscaling", "spot", "elasticfilesystem", "fsx", "s3.data-source.lustre.fsx")


# Actions on the certificate authority's parameter, without ssm:DescribeParameters, which cannot be restricted to a single parameter
AUTHORITY_ACTIONS = tuple(
    action
    for action in dict.fromkeys((*AUTHORITY_INFO.reads, *AUTHORITY.reads, *AUTHORITY.present, *AUTHORITY.absent))
    if action.startswith("ssm:") and action != "ssm:DescribeParameters"
)


def _component_actions(*prefixes: str) -> tuple[str, ...]:
    return tuple(sorted(action for action in all_of(COMPONENT_ACTIONS) if action.startswith(prefixes)))


def scopes(account: Account) -> tuple[Scope, ...]:
    run, own_template = "ec2:RunInstances", account.arns("ec2:launch-template/*")
    from_template = {"ArnLike": {"ec2:LaunchTemplate": own_template[0]}}
    names, lease, authority_alias = f"{account.cluster}-nodes-*", schedule_group(account.cluster), alias(account.cluster)
    groups = (f"autoscaling:autoScalingGroup:*:autoScalingGroupName/{account.cluster}-{group}" for group in (MASTER, WORKERS))
    created = [action.split(":")[1] for action in (*CREATES, run)]
    own_tag = {"StringLikeIfExists": {"aws:RequestTag/deeplearning:cluster": account.cluster}}
    not_others = {"StringLikeIfExists": {"aws:ResourceTag/deeplearning:cluster": account.cluster}}
    via = [f"{service}.*.amazonaws.*" for service in ("elasticfilesystem", "fsx", "ssm")]
    return (
        Scope("Create", (*CREATES, *FILE_SYSTEMS, "fsx:CreateDataRepositoryAssociation", "fsx:TagResource"), condition=account.new),
        # The group's name identifies the instances of the group. AWS does not check permissions when the newest or the default version
        # of a template changes, so groups must use a numbered version
        Scope(
            "CreateGroups",
            ("autoscaling:CreateAutoScalingGroup",),
            account.arns(*groups),
            account.new | {"Bool": {"autoscaling:LaunchTemplateVersionSpecified": "true"}},
        ),
        Scope(
            "ChangeGroups",
            ("autoscaling:UpdateAutoScalingGroup",),
            condition=account.own
            | {
                "BoolIfExists": {"autoscaling:LaunchTemplateVersionSpecified": "true"},
                "Null": {"autoscaling:LaunchConfigurationName": "true"},
            },
        ),
        Scope(
            "TagWhatIsCreated",
            ("ec2:CreateTags",),
            condition={"StringEquals": {"ec2:CreateAction": created}} | account.new,
            because=CREATES,
        ),
        Scope(
            "TagFileSystemThatIsCreated",
            ("elasticfilesystem:TagResource",),
            condition={"StringEquals": {"elasticfilesystem:CreateAction": ["CreateFileSystem", "CreateAccessPoint"]}},
        ),
        Scope(
            "CreateInVpc",
            ("ec2:CreateNatGateway", "ec2:CreateRouteTable", "ec2:CreateSecurityGroup", "ec2:CreateSubnet", "ec2:CreateVpcEndpoint"),
            account.arns("ec2:vpc/*"),
        ),
        Scope("CreateInSubnet", ("ec2:CreateNatGateway", "ec2:CreateVpcEndpoint", "ec2:ModifyVpcEndpoint"), account.arns("ec2:subnet/*")),
        Scope(
            "CreateWithOwn",
            ("ec2:CreateNatGateway", "ec2:CreateVpcEndpoint"),
            account.arns("ec2:elastic-ip/*", "ec2:route-table/*", "ec2:security-group/*"),
            account.own,
        ),
        Scope("Change", CHANGES, condition=account.own),
        # The endpoint and the security group of GuardDuty prevent the deletion of a VPC
        Scope(
            "DeleteOfGuardDuty",
            ("ec2:DeleteSecurityGroup", "ec2:DeleteVpcEndpoints"),
            account.arns("ec2:security-group/*", "ec2:vpc-endpoint/*"),
            {"StringEquals": {"aws:ResourceTag/GuardDutyManaged": "true"}},
            because=("ec2:DeleteVpc",),
        ),
        # A resource with another cluster's tag would be treated as a part of that cluster
        Scope(
            "ChangeTags",
            ("autoscaling:CreateOrUpdateTags", "ec2:CreateTags", "elasticfilesystem:TagResource"),
            condition=account.own | own_tag,
            because=CREATES,
        ),
        Scope(
            "AssociateAddress",
            ("ec2:AssociateAddress",),
            account.arns("ec2:elastic-ip/*", "ec2:instance/*", "ec2:network-interface/*"),
            account.own,
        ),
        Scope("MountTargets", MOUNT_TARGETS, account.arns("elasticfilesystem:file-system/*"), account.own),
        Scope("AdoptedFileSystems", MOUNT_TARGETS, account.own_or_adopted("elasticfilesystem")),
        Scope("AccessPoints", ("elasticfilesystem:CreateAccessPoint",), account.own_or_adopted("elasticfilesystem"), account.new),
        # EFS and FSx change network interfaces on behalf of the caller. Callers cannot change these interfaces directly
        Scope(
            "InterfacesOfFileSystems",
            INTERFACES,
            account.arns("ec2:network-interface/*", "ec2:subnet/*", "ec2:security-group/*"),
            {"Bool": {"aws:ViaAWSService": "true"}},
        ),
        # FSx has no API call that changes a file system's security groups. FSx tags its interfaces, as AmazonFSxServiceRolePolicy requires
        Scope(
            "InterfacesOfLustre",
            ("ec2:ModifyNetworkInterfaceAttribute",),
            account.arns("ec2:network-interface/*"),
            {"Null": {"aws:ResourceTag/AmazonFSx.FileSystemId": "false"}},
        ),
        Scope("GroupsOfLustre", ("ec2:ModifyNetworkInterfaceAttribute",), account.arns("ec2:security-group/*"), account.own),
        Scope("LaunchOwnTemplate", (run,), own_template, account.own),
        # AWS's own policies for services that create Auto Scaling groups, such as AWSElasticBeanstalkService, rely on this key alone.
        # Whether ec2:IsLaunchTemplateResource is true for interfaces that Auto Scaling completes with a subnet is not documented
        Scope(
            "LaunchFromTemplate",
            (run,),
            (*account.arns(*(f"ec2:{kind}/*" for kind in LAUNCHED)), account.public("ec2:image/*")),
            from_template,
        ),
        Scope("LaunchInGroups", (run,), account.arns("ec2:security-group/*"), account.own | from_template),
        Scope("LaunchInAdoptedGroups", (run,), account.own_or_adopted("ec2"), from_template),
        # IAM cannot determine the path of a role that does not exist. An existing instance profile may have any name
        Scope(
            "ReadNodesRole",
            tuple({*_component_actions("iam:Get", "iam:List")} - {"iam:GetInstanceProfile"}),
            account.arns(f"iam:role/{names}", f"iam:role{PATH}{names}"),
            because=("iam:GetRolePolicy",),
        ),
        # An adopted role may have any name
        Scope("SimulateRoles", ("iam:SimulatePrincipalPolicy",), account.arns("iam:role/*")),
        Scope("CreateNodesRole", ("iam:CreateRole",), account.arns(f"iam:role{PATH}{names}"), account.new | account.bounded),
        Scope(
            "TagNodesRole",
            ("iam:CreateInstanceProfile", "iam:TagInstanceProfile", "iam:TagRole"),
            account.arns(f"iam:role{PATH}{names}", f"iam:instance-profile{PATH}{names}"),
            account.new | not_others,
        ),
        Scope("WriteNodesRole", ("iam:PutRolePolicy",), account.arns(f"iam:role{PATH}{names}"), account.own | account.bounded),
        # If no permissions boundary is required, nobody may set a boundary. Callers who could set any boundary could also replace a
        # restrictive boundary
        Scope(
            "BoundNodesRole",
            ("iam:PutRolePermissionsBoundary",),
            account.arns(f"iam:role{PATH}{names}") if account.permissions_boundary else (),
            account.own | account.bounded,
        ),
        Scope(
            "ChangeNodesRole",
            (
                "iam:AddRoleToInstanceProfile",
                "iam:DeleteInstanceProfile",
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:DetachRolePolicy",
                "iam:RemoveRoleFromInstanceProfile",
            ),
            account.arns(f"iam:role{PATH}{names}", f"iam:instance-profile{PATH}{names}"),
            account.own,
        ),
        Scope(
            "PassNodesRole",
            ("iam:PassRole",),
            account.own_or_adopted("iam", *account.arns(f"iam:role{PATH}{names}")),
            {"StringLike": {"iam:PassedToService": "ec2.amazonaws.com*"}},
            because=(*GROUPS, "iam:AddRoleToInstanceProfile"),
        ),
        # The lease and the end of idle nodes
        Scope(
            "ReadEnds",
            ("scheduler:GetSchedule", "scheduler:GetScheduleGroup"),
            account.arns(f"scheduler:schedule/{names}/*", f"scheduler:schedule-group/{names}"),
        ),
        Scope("Ends", (*SCHEDULES, "scheduler:DeleteSchedule"), account.arns(f"scheduler:schedule/{names}/*"), because=DELETE_FUNCTION),
        Scope(
            "EndGroups",
            tuple(f"scheduler:{action}" for action in ("CreateScheduleGroup", "DeleteScheduleGroup", "TagResource")),
            account.arns(f"scheduler:schedule-group/{names}"),
        ),
        # Those who may not change the function could do so with a schedule that uses the function's role, or stop the schedule
        Scope("ProlongLease", SCHEDULES, account.arns(f"scheduler:schedule/{lease}/*"), unless=DELETE_FUNCTION),
        Scope(
            "PassLeaseRole",
            ("iam:PassRole",),
            account.arns(f"iam:role{PATH}{lease}*"),
            {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
            because=SCHEDULES,
            unless=DELETE_FUNCTION,
        ),
        Scope("EndFunction", _component_actions("lambda:"), account.arns(f"lambda:function:{names}"), because=DELETE_FUNCTION),
        Scope("ReadEndFunction", HOLD.reads, account.arns(f"lambda:function:{names}"), unless=DELETE_FUNCTION),
        # A request without keys would fulfil the second condition
        Scope(
            "HoldNodes",
            HOLD.present,
            account.arns(f"lambda:function:{names}"),
            {"Null": {"aws:TagKeys": "false"}, "ForAllValues:StringLike": {"aws:TagKeys": [f"{HOLD_TAG}*"]}},
            unless=DELETE_FUNCTION,
        ),
        Scope(
            "PassEndRoles",
            ("iam:PassRole",),
            account.arns(f"iam:role{PATH}{names}"),
            {"StringEquals": {"iam:PassedToService": ["lambda.amazonaws.com", "scheduler.amazonaws.com"]}},
            because=DELETE_FUNCTION,
        ),
        Scope(
            "ServiceLinkedRoles",
            ("iam:CreateServiceLinkedRole",),
            account.arns("iam:role/aws-service-role/*"),
            {"StringEquals": {"iam:AWSServiceName": [f"{name}.amazonaws.com" for name in SERVICE_ROLES]}},
            because=(*GROUPS, *FILE_SYSTEMS),
        ),
        Scope("CreateEmrClusters", RUN_JOB_FLOW, condition=account.new),
        # EMR has no condition key for the call that adds tags. Without the second condition, callers could take over tagged clusters
        Scope(
            "TagNewEmrClusters",
            ("elasticmapreduce:AddTags",),
            condition=account.new | {"Null": {"aws:ResourceTag/deeplearning:cluster": "true"}},
        ),
        Scope("ChangeEmrClusters", EMR_CHANGES, condition=account.own),
        Scope("TagEmrClusters", ("elasticmapreduce:AddTags",), condition=account.own | own_tag),
        Scope(
            "UntagEmrClusters",
            ("elasticmapreduce:RemoveTags",),
            condition=account.own | {"ForAllValues:StringNotEquals": {"aws:TagKeys": ["deeplearning:cluster"]}},
        ),
        # Other tags of instances, such as those that specify the storage, belong to the nodes' definition
        Scope(
            "NumberEmrNodes",
            ("ec2:CreateTags",),
            account.arns("ec2:instance/*"),
            account.own | {"ForAllValues:StringEquals": {"aws:TagKeys": [NUMBER_TAG]}},
            because=RUN_JOB_FLOW,
        ),
        Scope("ReadEmrRoles", ("iam:GetRole", "iam:ListAttachedRolePolicies"), account.arns("iam:role/*"), because=RUN_JOB_FLOW),
        Scope(
            "PassEmrServiceRole",
            ("iam:PassRole",),
            account.own_or_adopted("iam", *account.arns(f"iam:role/{DEFAULT_SERVICE_ROLE}")),
            {"StringLike": {"iam:PassedToService": "elasticmapreduce.amazonaws.com*"}},
            because=RUN_JOB_FLOW,
        ),
        Scope(
            "PassEmrNodesRole",
            ("iam:PassRole",),
            account.own_or_adopted("iam", *account.arns(f"iam:role/{DEFAULT_PROFILE}")),
            {"StringLike": {"iam:PassedToService": "ec2.amazonaws.com*"}},
            because=RUN_JOB_FLOW,
        ),
        Scope(
            "EmrCleanupRole",
            ("iam:CreateServiceLinkedRole",),
            account.arns("iam:role/aws-service-role/elasticmapreduce.amazonaws.com*/*"),
            {"StringLike": {"iam:AWSServiceName": "elasticmapreduce.amazonaws.com*"}},
            because=RUN_JOB_FLOW,
        ),
        Scope(
            "LustreRole",
            ("iam:AttachRolePolicy", "iam:PutRolePolicy"),
            account.arns("iam:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"),
        ),
        Scope(
            "PublicParameters",
            ("ssm:GetParameters", "ssm:GetParametersByPath"),
            account.own_or_adopted("ssm", account.public("ssm:parameter/aws/service/*"), *account.arns("ssm:parameter/aws/service/*")),
            because=("ssm:GetParametersByPath",),
        ),
        Scope(
            "Authority",
            tuple({"ssm:AddTagsToResource", *AUTHORITY_ACTIONS} - {"ssm:GetParameter"}),
            account.arns(f"ssm:parameter{parameter_name(account.cluster)}"),
        ),
        # Only those who sign certificates read the private key, and after a rotation also its previous version
        Scope(
            "ReadAuthority",
            ("ssm:GetParameter",),
            account.arns(*(f"ssm:parameter{parameter_name(account.cluster)}{version}" for version in ("", ":*"))),
            because=("ssm:PutParameter",),
        ),
        Scope(
            "AuthorityPublicKey",
            ("ssm:AddTagsToResource", "ssm:DeleteParameter", "ssm:GetParameter", "ssm:PutParameter"),
            account.arns(f"ssm:parameter{public_parameter_name(account.cluster)}"),
        ),
        Scope(
            "EmrRecord",
            ("ssm:DeleteParameter", "ssm:PutParameter"),
            account.arns(f"ssm:parameter{record.parameter_name(account.cluster)}"),
            because=("elasticmapreduce:DescribeCluster",),
        ),
        Scope(
            "ReadEmrRecord",
            EMR_RECORD.reads,
            account.arns(f"ssm:parameter{record.parameter_name(account.cluster)}"),
            because=("elasticmapreduce:DescribeCluster", "ssm:DeleteParameter"),
        ),
        # S3 evaluates conditions on a bucket's tags only if attribute-based access control is enabled for that bucket
        Scope(
            "DataBuckets",
            ("s3:TagResource", *UPLOADS, *BUCKET.reads, *BUCKET.present),
            (f"arn:{account.partition}:s3:::{account.cluster}-*",),
            {"StringEquals": {"s3:ResourceAccount": "${aws:PrincipalAccount}"}},
        ),
        Scope(
            "AdoptedBuckets",
            (*UPLOADS, *BUCKET.reads),
            tuple(each for arn in account.own_or_adopted("s3") for each in (arn, f"{arn}/*")),
        ),
        Scope("PrivateNames", ("route53:AssociateVPCWithHostedZone",), (f"arn:{account.partition}:route53:::hostedzone/*",)),
        # Without this condition, a caller who specifies no document gets a shell, even if the policy does not allow shells
        Scope("ConnectToNodes", ("ssm:StartSession",), account.arns("ec2:instance/*"), account.own | DOCUMENT_CHECK),
        Scope("ConnectBySsh", ("ssm:StartSession",), account.arns("ssm:document/AWS-StartSSHSession"), DOCUMENT_CHECK),
        # The session IDs of roles do not begin with the caller's ID, but a tag of the session contains the caller's ID
        Scope(
            "EndOwnSessions",
            ("ssm:TerminateSession",),
            account.arns("ssm:session/*"),
            {"StringLike": {"ssm:resourceTag/aws:ssmmessages:session-id": ["${aws:userid}"]}},
        ),
        Scope(
            "UseOwnSessions",
            ("ssmmessages:OpenDataChannel",),
            account.arns("ssm:session/${aws:userid}-*", "ssm:session/${aws:username}-*"),
        ),
        # For create_kms_key. The key's policy allows its creator to create the alias, so that nobody needs permissions for other keys.
        # Operators who destroy the cluster have permissions for the key with this alias
        Scope(
            "CreateAuthorityKey",
            ("kms:CreateKey",),
            condition={"StringEquals": {"kms:KeySpec": "SYMMETRIC_DEFAULT", "kms:KeyUsage": "ENCRYPT_DECRYPT"}},
        ),
        Scope("AuthorityAlias", ("kms:CreateAlias", "kms:DeleteAlias"), account.arns(f"kms:{authority_alias}")),
        Scope(
            "AuthorityKey",
            ("kms:DeleteAlias", "kms:ScheduleKeyDeletion"),
            account.arns("kms:key/*"),
            {"ForAnyValue:StringLike": {"kms:ResourceAliases": authority_alias}},
        ),
        Scope(
            "KeysOfServices",
            ("kms:CreateGrant", "kms:Decrypt", "kms:Encrypt"),
            condition={"StringLike": {"kms:ViaService": via}},
            because=(*FILE_SYSTEMS, "ssm:PutParameter"),
        ),
        # For dataset_kms_key_id. To complete a multipart upload, S3 decrypts its parts
        Scope(
            "KeysOfBuckets",
            ("kms:Decrypt", "kms:GenerateDataKey"),
            condition={"StringLike": {"kms:ViaService": "s3.*.amazonaws.*"}},
            because=UPLOADS,
        ),
    )


def all_of(declared: Iterable[IamActions]) -> set[str]:
    return {action for calls in declared for action in (*calls.reads, *calls.definition, *calls.present, *calls.absent)}
