# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the nodes may do in AWS. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._plan.resources import Address, Ref, Wanted

ROLE = Address("role", "nodes")
INSTANCE_PROFILE = Address("instance_profile", "nodes")

TRUST_POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}

# AWS: the custom role with the least permissions for Session Manager
SESSION_MANAGER_ACTIONS = [
    "ssm:UpdateInstanceInformation",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
]


def name(cluster: str, region: str) -> str:
    """Roles are global, clusters are not: the name holds the region."""
    return f"{cluster}-nodes-{region}"


def policy(region: str, read_buckets: Sequence[str], write_buckets: Sequence[str], *, session_manager: bool = False) -> dict[str, Any]:
    """The least that nodes need: to see their own groups and instances, the buckets that the user names, and Session Manager."""
    partition = "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"
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
        # Tags: the AWS CLI keeps them when it copies large objects from bucket to bucket
        statements += [
            _statement("ListBuckets", ["s3:ListBucket", "s3:GetBucketLocation"], [f"arn:{partition}:s3:::{bucket}" for bucket in readable]),
            _statement("ReadObjects", ["s3:GetObject", "s3:GetObjectTagging"], [f"arn:{partition}:s3:::{bucket}/*" for bucket in readable]),
        ]
    if write_buckets:
        actions = ["s3:PutObject", "s3:PutObjectTagging", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        statements.append(_statement("WriteObjects", actions, [f"arn:{partition}:s3:::{bucket}/*" for bucket in sorted(write_buckets)]))
    if session_manager:
        statements.append(_statement("SessionManager", SESSION_MANAGER_ACTIONS, ["*"]))
    return {"Version": "2012-10-17", "Statement": statements}


def _statement(sid: str, actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}


def wanted(cluster: str, region: str, nodes_policy: Mapping[str, Any], tags: Callable[[Address], dict[str, str]]) -> list[Wanted]:
    """The role and the instance profile that carries it."""
    role_name = name(cluster, region)
    return [
        Wanted(ROLE, {"name": role_name, "trust": TRUST_POLICY, "policy": nodes_policy, "tags": tags(ROLE)}),
        Wanted(INSTANCE_PROFILE, {"name": role_name, "role": Ref(ROLE), "tags": tags(INSTANCE_PROFILE)}),
    ]
