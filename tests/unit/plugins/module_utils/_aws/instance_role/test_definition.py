"""Tests of the permissions of the nodes' role, and of its trust policy."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition as role


def test_session_manager_is_let_in_only_when_asked_for():
    def actions(**more):
        return {action for statement in role.policy("us-east-1", [], [], **more)["Statement"] for action in statement["Action"]}

    gained = actions(session_manager=True) - actions()
    assert gained == set(role.SESSION_MANAGER_ACTIONS)
    assert "ssmmessages:OpenDataChannel" in gained


def test_nodes_can_list_the_nodes_of_their_cluster():
    (statement,) = [each for each in role.policy("us-east-1", [], [])["Statement"] if each["Effect"] == "Allow"]
    assert set(statement["Action"]) == {"autoscaling:DescribeAutoScalingGroups", "ec2:DescribeInstances"}
    assert statement["Resource"] == "*"


def test_exports_are_written_below_their_prefix_and_not_read():
    statements = role.policy("cn-north-1", [], [], export_destinations=["s3://two/team/", "s3://one", "s3://one"])["Statement"]
    assert [each for each in statements if "Exports" in each["Sid"]] == [
        {"Sid": "ListExports1", "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws-cn:s3:::one"]},
        {
            "Sid": "WriteExports1",
            "Effect": "Allow",
            "Action": ["s3:PutObject", "s3:AbortMultipartUpload"],
            "Resource": ["arn:aws-cn:s3:::one/*"],
        },
        {
            "Sid": "ListExports2",
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": ["arn:aws-cn:s3:::two"],
            "Condition": {"StringLike": {"s3:prefix": "team/*"}},
        },
        {
            "Sid": "WriteExports2",
            "Effect": "Allow",
            "Action": ["s3:PutObject", "s3:AbortMultipartUpload"],
            "Resource": ["arn:aws-cn:s3:::two/team/*"],
        },
    ]


def test_own_statements_come_before_those_that_protect_the_authority():
    own = {"Effect": "Allow", "Action": "ssm:*", "Resource": "*"}
    statements = role.policy("us-east-1", [], [], [], [own])["Statement"]
    assert own in statements
    assert [each["Sid"] for each in statements[statements.index(own) + 1 :]] == ["NoAuthority", "NoAuthorityByPath"]


@pytest.mark.parametrize(
    ("region", "services"),
    [
        ("us-east-1", ["ec2.amazonaws.com"]),
        ("eusc-de-east-1", ["ec2.amazonaws.com"]),
        ("cn-north-1", ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]),
    ],
)
def test_who_may_have_the_role(region, services):
    (statement,) = definition.trust_policy(region)["Statement"]
    assert statement == {"Effect": "Allow", "Principal": {"Service": services}, "Action": "sts:AssumeRole"}
