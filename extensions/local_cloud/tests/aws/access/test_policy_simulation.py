"""The policy simulation for roles evaluates policies in the same way as requests."""

from __future__ import annotations

import json

from ..conftest import TRUST_EC2, Account


def test_the_policies_of_a_role_are_evaluated(account: Account) -> None:
    client, name = account.client("iam"), account.name("role")
    role = client.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST_EC2))["Role"]
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::mine/*"}
    client.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    actions = {"PolicySourceArn": role["Arn"], "ActionNames": ["s3:GetObject", "s3:PutObject"], "ResourceArns": ["arn:aws:s3:::mine/a"]}
    results = client.simulate_principal_policy(**actions)["EvaluationResults"]
    assert [(each["EvalActionName"], each["EvalDecision"]) for each in results] == [
        ("s3:GetObject", "allowed"),
        ("s3:PutObject", "implicitDeny"),
    ]
