"""Policies are evaluated as the IAM User Guide describes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from local_cloud.aws.policies import Effect, Permission, Unsupported, decide

GET = Permission(
    "s3:GetObject", "arn:aws:s3:::data/train/1.tar", {"aws:username": "ann", "aws:viaawsservice": "false", "aws:calledvia": ()}
)


def says(*statements: dict[str, Any], permission: Permission = GET, boundary: dict[str, Any] | None = None) -> str:
    document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    bound = None if boundary is None else json.dumps({"Version": "2012-10-17", "Statement": boundary})
    return decide([document], permission, bound).effect.value


def allow(action: Any = "*", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        (allow("s3:*"), True),
        (allow("S3:getobject"), True),
        (allow(["s3:PutObject", "s3:Get*"], ["arn:aws:s3:::data/train/*"]), True),
        (allow("s3:GetObject", "arn:aws:s3:::data/test/*"), False),
        (allow("s3:PutObject"), False),
        (allow("s3:GetObject", "arn:aws:s3:::data/train/?.tar"), True),
        (allow("s3:GetObject", "arn:aws:s3:*:data/*"), False),
        (allow("s3:GetObject", "arn:aws:s3:::${aws:username}/*"), False),
        (allow("s3:GetObject", "arn:aws:s3:::${aws:userid}/*"), False),
        ({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}, True),
        ({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::data/*"}, False),
    ],
)
def test_actions_and_resources(statement: dict[str, Any], allowed: bool) -> None:
    assert (says(statement) == "allowed") is allowed


def test_a_denial_wins_and_nothing_is_allowed_by_itself() -> None:
    deny = {"Effect": "Deny", "Action": "s3:Get*", "Resource": "arn:aws:s3:::data/*"}
    assert says(allow(), deny) == says(deny, allow()) == "explicitDeny"
    assert says() == "implicitDeny"


def test_a_boundary_has_to_allow_it_too() -> None:
    assert says(allow(), boundary=allow("s3:*")) == "allowed"
    assert says(allow(), boundary=allow("ec2:*")) == "implicitDeny"
    assert says(boundary=allow()) == "implicitDeny"
    assert says(allow(), boundary={"Effect": "Deny", "Action": "*", "Resource": "*"}) == "explicitDeny"


TAGGED = Permission(
    "ec2:CreateTags",
    "arn:aws:ec2:us-east-1:1:vpc/vpc-1",
    {
        "aws:resourcetag/team": "speech",
        "aws:tagkeys": ("Name", "team"),
        "aws:viaawsservice": "true",
        "aws:calledvia": ("elasticfilesystem.amazonaws.com",),
        "ec2:launchtemplate": "arn:aws:ec2:us-east-1:1:launch-template/lt-1",
        "aws:username": "speech",
    },
)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"StringEquals": {"aws:ResourceTag/team": "speech"}}, True),
        ({"StringEquals": {"aws:ResourceTag/team": "sp*"}}, False),
        ({"StringEquals": {"aws:ResourceTag/team": "${aws:username}"}}, True),
        ({"StringLike": {"AWS:resourcetag/team": ["a*", "sp*"]}}, True),
        ({"StringLike": {"aws:ResourceTag/team": "${*}"}}, False),
        ({"StringNotEquals": {"aws:ResourceTag/team": "speech"}}, False),
        ({"StringNotEquals": {"aws:RequestTag/team": "speech"}}, True),
        ({"StringEquals": {"aws:RequestTag/team": "speech"}}, False),
        ({"StringEqualsIfExists": {"aws:RequestTag/team": "speech"}}, True),
        ({"StringEqualsIfExists": {"aws:ResourceTag/team": "vision"}}, False),
        ({"Null": {"aws:RequestTag/team": "true"}}, True),
        ({"Null": {"aws:ResourceTag/team": "true"}}, False),
        ({"Null": {"aws:ResourceTag/team": "false"}}, True),
        ({"Bool": {"aws:ViaAWSService": "true"}}, True),
        ({"Bool": {"aws:ViaAWSService": False}}, False),
        ({"BoolIfExists": {"ec2:IsLaunchTemplateResource": "true"}}, True),
        ({"ArnLike": {"ec2:LaunchTemplate": "arn:aws:ec2:*:*:launch-template/*"}}, True),
        ({"ArnLike": {"ec2:LaunchTemplate": "arn:*"}}, False),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["Name", "team", "owner"]}}, True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["Name"]}}, False),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": ["Name"]}}, True),
        ({"ForAnyValue:StringEquals": {"aws:CalledVia": ["fsx.amazonaws.com"]}}, False),
        ({"StringEquals": {"aws:ResourceTag/team": "speech"}, "Bool": {"aws:ViaAWSService": "false"}}, False),
    ],
)
def test_conditions(condition: dict[str, Any], holds: bool) -> None:
    assert (says(allow(Condition=condition), permission=TAGGED) == "allowed") is holds


@pytest.mark.parametrize(
    "statement",
    [
        allow(Condition={"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}),
        allow(Condition={"StringEquals": {"aws:SourceVpce": "vpce-1"}}),
        allow(resource="arn:aws:s3:::${aws:PrincipalTag/team}/*"),
        allow(Principal="*"),
    ],
)
def test_what_is_not_known_is_an_error(statement: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        says(statement)


def test_a_decision_names_the_statements() -> None:
    document = json.dumps({"Statement": [allow("s3:*", Sid="All"), allow("ec2:*", Sid="Other")]})
    decision = decide([document], GET)
    assert decision.effect is Effect.ALLOWED
    assert decision.statements == ("All",)
