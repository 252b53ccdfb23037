"""IAM accepts only the service principals that exist in the partition."""

from __future__ import annotations

import json

import pytest

from ..conftest import Account, refused


@pytest.mark.parametrize(
    ("region", "service", "accepted"),
    [
        ("us-east-1", "ec2.amazonaws.com", True),
        ("us-east-1", "ec2.amazonaws.com.cn", False),
        ("us-east-1", "ec3.amazonaws.com", False),
        ("us-gov-west-1", "ec2.amazonaws.com", True),
        ("cn-north-1", "ec2.amazonaws.com", True),
        ("cn-north-1", "elasticmapreduce.amazonaws.com.cn", True),
        ("eusc-de-east-1", "ec2.amazonaws.com", True),
        ("eusc-de-east-1", "ec2.amazonaws.eu", False),
    ],
)
def test_service_principals(account: Account, region: str, service: str, accepted: bool) -> None:
    iam, name = Account(account.url, region).client("iam"), account.name("role")
    statement = {"Effect": "Allow", "Principal": {"Service": ["lambda.amazonaws.com", service]}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    if accepted:
        assert iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust)
    else:
        message = f'Invalid principal in policy: "SERVICE":"{service}"'
        refused(lambda: iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust), "MalformedPolicyDocument", message)
