# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What nodes may do in AWS. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Ref, Wanted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.regions import Partition, partition_of

ROLE = Address("role", "nodes")
INSTANCE_PROFILE = Address("instance_profile", "nodes")

# The policies of operators name it, so they apply to the collection's roles only
PATH = "/deeplearning/"

# AWS documents this as the custom role with the least permissions for Session Manager
SESSION_MANAGER_ACTIONS = [
    "ssm:UpdateInstanceInformation",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
]


# Whoever reads the parameter can sign certificates for every node. Whoever writes it becomes the authority.
# Systems Manager's managed policies for instances allow reading all parameters, and others attach them to the nodes' roles.
AUTHORITY_ACTIONS = [
    "ssm:DeleteParameter",
    "ssm:DeleteParameters",
    "ssm:GetParameter",
    "ssm:GetParameterHistory",
    "ssm:GetParameters",
    "ssm:LabelParameterVersion",
    "ssm:PutParameter",
]


def trust_policy(region: str) -> dict[str, Any]:
    """Return who may assume the role: EC2 instances. China has a service name of its own, and also uses the general one."""
    partition = partition_of(region)
    names = [f"ec2.{partition.dns_suffix}"]
    services: str | list[str] = ["ec2.amazonaws.com", *names] if partition.name == "aws-cn" else names[0]
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": services}, "Action": "sts:AssumeRole"}],
    }


def name(cluster: str, region: str) -> str:
    """Return the name of the role. Roles are global and clusters are not, so it holds the region."""
    return f"{cluster}-nodes-{region}"


def policy(
    region: str,
    read_buckets: Sequence[str],
    write_buckets: Sequence[str],
    of_mounts: Sequence[Mapping[str, Any]] = (),
    *,
    session_manager: bool = False,
) -> dict[str, Any]:
    """Return the least that nodes need: their own groups and instances, the buckets that the user names, and Session Manager.

    `of_mounts` are the statements for what nodes mount with the credentials of their role. A denial takes precedence over any other policy
    of the role.
    """
    partition = partition_of(region)
    statements: list[dict[str, Any]] = [
        {
            "Sid": "DescribeNodes",
            "Effect": "Allow",
            "Action": ["autoscaling:DescribeAutoScalingGroups", "ec2:DescribeInstances"],
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:RequestedRegion": region}},
        }
    ]
    readable = sorted({*read_buckets, *write_buckets})
    if readable:
        # Tags: the AWS CLI copies them with large objects
        statements += [
            _statement("ListBuckets", ["s3:ListBucket", "s3:GetBucketLocation"], [partition.arn("s3", bucket) for bucket in readable]),
            _statement("ReadObjects", ["s3:GetObject", "s3:GetObjectTagging"], [partition.arn("s3", f"{each}/*") for each in readable]),
        ]
    if write_buckets:
        actions = ["s3:PutObject", "s3:PutObjectTagging", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        statements.append(_statement("WriteObjects", actions, [partition.arn("s3", f"{bucket}/*") for bucket in sorted(write_buckets)]))
    if session_manager:
        statements.append(_statement("SessionManager", SESSION_MANAGER_ACTIONS, ["*"]))
    return {"Version": "2012-10-17", "Statement": [*statements, *of_mounts, *_no_authority(partition)]}


def _no_authority(partition: Partition) -> list[dict[str, Any]]:
    """Return the statement that denies access to the SSH authorities of all clusters.

    For a call by path, IAM evaluates the path alone, and access to a path includes everything below it.
    """
    authorities = [partition.arn("ssm", "parameter/deeplearning/*/ssh-authority*", "*", "*")]
    paths = [partition.arn("ssm", f"parameter/{path}", "*", "*") for path in ("", "deeplearning", "deeplearning/*")]
    return [
        _statement("NoAuthority", AUTHORITY_ACTIONS, authorities, effect="Deny"),
        _statement("NoAuthorityByPath", ["ssm:GetParametersByPath"], paths, effect="Deny"),
    ]


def _statement(sid: str, actions: list[str], resources: list[str], *, effect: str = "Allow") -> dict[str, Any]:
    return {"Sid": sid, "Effect": effect, "Action": actions, "Resource": resources}


def wanted(
    cluster: str,
    region: str,
    nodes_policy: Mapping[str, Any],
    tags: Callable[[Address], dict[str, str]],
    permissions_boundary: str | None = None,
) -> list[Wanted]:
    """Return the role and the instance profile that carries it. Without `permissions_boundary` a role keeps the one it has."""
    role_name = name(cluster, region)
    properties = {
        "name": role_name,
        "trust": trust_policy(region),
        "permissions_boundary": permissions_boundary,
        "policy": nodes_policy,
        "tags": tags(ROLE),
    }
    return [
        Wanted(ROLE, properties),
        Wanted(INSTANCE_PROFILE, {"name": role_name, "role": Ref(ROLE), "tags": tags(INSTANCE_PROFILE)}),
    ]
