"""Trust policies that IAM refuses, and the service principals that exist in a partition."""

from __future__ import annotations

import json
from typing import Any

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


GOOD = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (None, "Statement is empty"),
        ([], "Statement is empty"),
        ([GOOD, {**GOOD, "Principal": None}], "Missing required field Principal"),
        ([{**GOOD, "Action": "s3:GetObject"}], "may only specify STS AssumeRole actions"),
        ([{**GOOD, "Action": []}], "may only specify STS AssumeRole actions"),
        ([{**GOOD, "Effect": "allow"}], "Invalid effect"),
        ([{**GOOD, "Resource": "*"}], "prohibited field Resource"),
    ],
)
def test_what_is_no_trust_policy(account: Account, statements: Any, words: str) -> None:
    iam, name = account.client("iam"), account.name("role")
    policy = {"Version": "2012-10-17"} | ({} if statements is None else {"Statement": statements})
    refused(lambda: iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(policy)), "MalformedPolicyDocument", words)
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": GOOD}))
    refused(lambda: iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(policy)), "MalformedPolicyDocument", words)


def test_iam_returns_principals_in_another_order_and_single_elements_without_a_list(account):
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": ["ec2.amazonaws.com"]}, "Action": "sts:AssumeRole"}],
    }
    name = account.name("role")
    account.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(policy))
    found = account.client("iam").get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    assert found["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com"}
    policy["Statement"][0]["Principal"]["Service"].append("elasticmapreduce.amazonaws.com")
    account.client("iam").update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(policy))
    found = account.client("iam").get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    assert found["Statement"][0]["Principal"]["Service"] == ["elasticmapreduce.amazonaws.com", "ec2.amazonaws.com"]
