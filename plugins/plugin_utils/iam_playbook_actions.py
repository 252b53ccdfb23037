# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the IAM actions that operators need, for each playbook, from the actions that components and modules declare."""

from __future__ import annotations

from collections.abc import Iterable

from ..module_utils._aws.cluster_events.iam_actions import EVENTS
from ..module_utils._aws.dataset_bucket.iam_actions import IAM_ACTIONS as BUCKET
from ..module_utils._aws.emr.iam_actions import AUTO_TERMINATION
from ..module_utils._aws.emr.iam_actions import IAM_ACTIONS as EMR
from ..module_utils._aws.emr.iam_actions import RECORD as EMR_RECORD
from ..module_utils._aws.idle.iam_actions import HOLD
from ..module_utils._aws.instance_role.iam_actions import READ_ROLE
from ..module_utils._aws.node_group.iam_actions import FORMER_NODES, HOST_KEYS
from ..module_utils._aws.node_services import DEFAULT, NODE_SERVICES
from ..module_utils._aws.pricing.iam_actions import LIST_PRICES, PRICES
from ..module_utils._aws.schedules.iam_actions import PROLONG
from ..module_utils._aws.ssh_authority.iam_actions import AUTHORITY, AUTHORITY_INFO, PUBLIC_KEY
from ..module_utils._aws.ssh_authority.iam_actions import KEY as AUTHORITY_KEY
from ..module_utils._aws.validators.iam_actions import IAM_ACTIONS as VALIDATORS
from .iam_resources_and_conditions import (
    COMPONENT_ACTIONS,
    FILE_SYSTEMS,
    GROUPS,
    RUN_JOB_FLOW,
    SCHEDULES,
    UPLOADS,
    all_of,
)

# Actions of `aws ssm start-session`, for connection_path: session_manager. Source: AWS Systems Manager User Guide, "Allow and control
# permissions for SSH connections through Session Manager"
SESSIONS = ("ssm:StartSession", "ssm:TerminateSession", "ssmmessages:OpenDataChannel")
WITHOUT_PERMISSION = {"sts:GetCallerIdentity"}  # AWS STS API Reference: "No permissions are required to perform this operation"
# Actions that the validators of EMR clusters use and that other packages declare
EMR_CHECKS = (
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcAttribute",
    "ec2:DescribeVpcs",
)

FUNCTIONS = ("lambda:CreateFunction", "lambda:UpdateFunctionConfiguration")

# Actions that AWS also checks for the caller, each with the actions that cause the check. Sources: the "dependent
# actions" of the Service Authorization Reference; Amazon EC2 Auto Scaling User Guide, "Launch template support"; Amazon EFS API
# Reference, the permissions that each operation requires; Amazon FSx documentation, "Linking your file system to an S3 bucket"; IAM
# User Guide, "Tagging IAM resources".
IMPLIED: dict[str, tuple[str, ...]] = {
    "ec2:CreateNetworkInterface": ("elasticfilesystem:CreateMountTarget", "fsx:CreateFileSystem"),
    "ec2:DeleteNetworkInterface": ("elasticfilesystem:DeleteMountTarget",),
    "ec2:DescribeNetworkInterfaceAttribute": (
        "elasticfilesystem:DescribeMountTargetSecurityGroups",
        "elasticfilesystem:ModifyMountTargetSecurityGroups",
    ),
    "ec2:DescribeNetworkInterfaces": ("elasticfilesystem:CreateMountTarget",),
    "ec2:DescribeSubnets": ("elasticfilesystem:CreateMountTarget",),
    "ec2:GetSecurityGroupsForVpc": ("fsx:CreateFileSystem",),
    "ec2:ModifyNetworkInterfaceAttribute": ("elasticfilesystem:ModifyMountTargetSecurityGroups",),
    "ec2:RunInstances": GROUPS,
    "elasticfilesystem:TagResource": ("elasticfilesystem:CreateAccessPoint", "elasticfilesystem:CreateFileSystem"),
    "fsx:TagResource": ("fsx:CreateFileSystem", "fsx:CreateDataRepositoryAssociation"),
    "iam:AttachRolePolicy": ("fsx:CreateDataRepositoryAssociation",),
    "iam:CreateServiceLinkedRole": (*GROUPS, *FILE_SYSTEMS, *RUN_JOB_FLOW),
    "iam:PassRole": (*GROUPS, *RUN_JOB_FLOW, *SCHEDULES, "iam:AddRoleToInstanceProfile", *FUNCTIONS),
    "iam:TagInstanceProfile": ("iam:CreateInstanceProfile",),
    "iam:TagRole": ("iam:CreateRole",),
    "kms:CreateGrant": FILE_SYSTEMS,
    "kms:Decrypt": ("ssm:PutParameter", "s3:PutObject"),  # those who write the authority's private key also read it
    "kms:DescribeKey": FILE_SYSTEMS,
    "kms:GenerateDataKey": ("s3:PutObject",),
    "kms:Encrypt": ("ssm:PutParameter",),
    "route53:AssociateVPCWithHostedZone": ("ec2:CreateVpcEndpoint",),
    "s3:TagResource": ("s3:CreateBucket",),
    "scheduler:TagResource": ("scheduler:CreateScheduleGroup",),
    "ssm:AddTagsToResource": ("ssm:PutParameter",),
}


def with_implied(actions: Iterable[str]) -> set[str]:
    """Return the given actions, and the actions that AWS also checks because of these actions."""
    called = set(actions)
    return called | {action for action, causes in IMPLIED.items() if called & set(causes)}


def playbooks() -> dict[str, set[str]]:
    """Return the IAM actions by playbook. Playbooks that use Session Manager also need the actions of the entry `session_manager`."""
    reads = {action for calls in COMPONENT_ACTIONS for action in calls.reads}
    validate = reads | {action for calls in (*COMPONENT_ACTIONS, VALIDATORS) for action in calls.definition}
    inventory = set(NODE_SERVICES[DEFAULT].iam_actions.reads + PUBLIC_KEY.reads)
    provision = inventory | validate | {action for calls in COMPONENT_ACTIONS for action in calls.present} | set(AUTHORITY_INFO.reads)
    trust = all_of((HOST_KEYS,)) | set(AUTHORITY.reads + AUTHORITY.present + AUTHORITY_KEY.reads + AUTHORITY_KEY.present)
    configure = inventory | all_of((FORMER_NODES, PROLONG, HOLD, READ_ROLE)) | trust
    emr_nodes = all_of((NODE_SERVICES["emr"].iam_actions, NODE_SERVICES["emr"].former_actions))
    absent = {action for calls in (*COMPONENT_ACTIONS, AUTHORITY, AUTHORITY_KEY) for action in calls.absent}
    result = {
        "validate": inventory | validate,
        "provision": provision,
        "configure": configure,
        "train": provision | configure,
        "session_manager": set(SESSIONS),
        "dataset": inventory | all_of((BUCKET,)) | set(UPLOADS),
        "status": inventory,
        "events": inventory | all_of((EVENTS, FORMER_NODES, PRICES)),
        "stop": inventory,
        # The playbooks for the nodes of an EMR cluster, from emr to stop
        "emr": emr_nodes | trust | all_of((EMR, LIST_PRICES)) | set(EMR_CHECKS + AUTHORITY.absent + AUTHORITY_KEY.absent),
        "emr_status": emr_nodes | set(PUBLIC_KEY.reads + AUTO_TERMINATION.reads),
        "destroy": inventory | reads | set(AUTHORITY.reads + AUTHORITY_INFO.reads + AUTHORITY_KEY.reads + EMR_RECORD.reads) | absent,
    }
    return {name: with_implied(actions) - WITHOUT_PERMISSION for name, actions in result.items()}
