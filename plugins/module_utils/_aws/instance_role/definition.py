# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The AWS permissions of the nodes. Performs no I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._common.shared_storage.mounts import bucket_and_prefix
from ..plan.resources import Address, Ref, Wanted
from ..regions import Partition, partition_of

ROLE = Address("role", "nodes")
INSTANCE_PROFILE = Address("instance_profile", "nodes")

# Policies for operators contain this IAM path, so that they apply only to roles that the collection creates
# The minimum permissions for Session Manager, as AWS documents them for a custom role
SESSION_MANAGER_ACTIONS = [
    "ssm:UpdateInstanceInformation",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
]


# Anyone who can read the certificate authority's SSM parameter can sign certificates for every node. Anyone who can write the parameter can
# replace the certificate authority. Some AWS managed policies for Systems Manager allow reading all parameters. Users or AWS services may
# attach these policies to the nodes' roles.
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
    principal = {"Service": partition_of(region).principals("ec2")}
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}]}


def name(cluster: str, region: str) -> str:
    """Return the name of the role. The name contains the region, because IAM roles are global and clusters are regional."""
    return f"{cluster}-nodes-{region}"


def policy(
    region: str,
    read_buckets: Sequence[str],
    write_buckets: Sequence[str],
    of_mounts: Sequence[Mapping[str, Any]] = (),
    additional: Sequence[Mapping[str, Any]] = (),
    *,
    export_destinations: Sequence[str] = (),
    session_manager: bool = False,
) -> dict[str, Any]:
    """Return the policy with the nodes' minimum permissions for Auto Scaling groups, instances, the user's buckets and Session Manager.

    `of_mounts` contains the statements for mounts that use the role's credentials, and `additional` contains the user's own statements. The
    Deny statements in this policy override all other statements and policies of the role.
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
        # The tagging actions are included because the AWS CLI copies the tags of large objects
        statements += [
            _statement("ListBuckets", ["s3:ListBucket", "s3:GetBucketLocation"], [partition.arn("s3", bucket) for bucket in readable]),
            _statement("ReadObjects", ["s3:GetObject", "s3:GetObjectTagging"], [partition.arn("s3", f"{each}/*") for each in readable]),
        ]
    if write_buckets:
        actions = ["s3:PutObject", "s3:PutObjectTagging", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        statements.append(_statement("WriteObjects", actions, [partition.arn("s3", f"{bucket}/*") for bucket in sorted(write_buckets)]))
    for number, destination in enumerate(sorted(set(export_destinations)), 1):
        statements += _exports(destination, number, partition)
    if session_manager:
        statements.append(_statement("SessionManager", SESSION_MANAGER_ACTIONS, ["*"]))
    return {"Version": "2012-10-17", "Statement": [*statements, *of_mounts, *additional, *_no_authority(partition)]}


def _exports(destination: str, number: int, partition: Partition) -> list[dict[str, Any]]:
    bucket, prefix = bucket_and_prefix(destination)
    listing = _statement(f"ListExports{number}", ["s3:ListBucket"], [partition.arn("s3", bucket)])
    if prefix:
        listing["Condition"] = {"StringLike": {"s3:prefix": f"{prefix}*"}}
    actions = ["s3:PutObject", "s3:AbortMultipartUpload"]
    return [listing, _statement(f"WriteExports{number}", actions, [partition.arn("s3", f"{bucket}/{prefix}*")])]


def _no_authority(partition: Partition) -> list[dict[str, Any]]:
    """Return the statements that deny access to the SSH certificate authorities of all clusters.

    For GetParametersByPath, IAM evaluates only the requested path. Access to a path includes all parameters below it.
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
    """Return the role and the instance profile. If `permissions_boundary` is not set, an existing role keeps its permissions boundary."""
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
