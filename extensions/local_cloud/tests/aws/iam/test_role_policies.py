"""The inline policies of a role have a maximum size."""

from __future__ import annotations

import json

from ..conftest import TRUST_EC2, Account, refused


def test_the_policies_of_a_role_have_a_limit(account: Account) -> None:
    iam, name = account.client("iam"), account.name("role")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST_EC2))

    def put(policy: str, size: int) -> None:
        statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::" + "b" * size}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=4)
        iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=document)

    put("first", 6000)
    refused(lambda: put("second", 6000), "LimitExceeded", f"Maximum policy size of 10240 bytes exceeded for role {name}")
    put("second", 3000)
