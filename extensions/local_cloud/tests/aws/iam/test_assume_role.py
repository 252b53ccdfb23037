"""Trust policies that IAM refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..conftest import Account, refused

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
