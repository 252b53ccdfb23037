"""Tests of the statements that a definition adds to the nodes' role policy."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.definition import policy
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators import iam

GOOD = {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "arn:aws:kms:us-east-1:123456789012:key/1"}


def without(key):
    return {name: value for name, value in GOOD.items() if name != key}


@pytest.mark.parametrize(
    "statement",
    [
        GOOD,
        {**GOOD, "Sid": "Decrypt1", "Condition": {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}},
        *(
            {**GOOD, "Condition": {operator: {"aws:TagKeys": ["a"]}}}
            for operator in ("Null", "ForAllValues:StringLike", "ForAnyValue:StringEqualsIfExists", "NumericLessThanEquals", "ArnNotLike")
        ),
        {**GOOD, "Action": ["ecr:Batch*", "ecr:GetAuthorizationToken"], "Resource": "*"},
        {**without("Action"), "Effect": "Deny", "NotAction": "*"},
        {**without("Resource"), "NotResource": ["arn:aws-cn:s3:::a", "arn:aws:s3:::b/*"]},
    ],
)
def test_statements_that_iam_accepts(statement):
    assert list(iam.check_statements([statement])) == []


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ({**GOOD, "Principal": "*"}, "Principal is not valid in the policy of a role. Use only Sid, Effect, Action, NotAction, Resource"),
        ({**GOOD, "effect": "Deny"}, "effect is not valid in the policy of a role"),
        (without("Effect"), "Effect is None. Use Allow or Deny."),
        ({**GOOD, "Effect": "allow"}, "Effect is 'allow'. Use Allow or Deny."),
        ({**GOOD, "Sid": "with space"}, "Sid 'with space' is not valid. Use letters and digits."),
        ({**GOOD, "Condition": "always"}, "Condition is not a dictionary."),
        (
            {**GOOD, "Condition": {"StringEqual": {}}},
            "'StringEqual' is not a condition operator. Use an operator such as StringEquals",
        ),
        ({**GOOD, "Condition": {"NullIfExists": {}}}, "'NullIfExists' is not a condition operator"),
        ({**GOOD, "Condition": {"ForAnyValues:StringLike": {}}}, "'ForAnyValues:StringLike' is not a condition operator"),
        ({**GOOD, "Condition": {"Bool": "true"}}, "Bool in Condition is not a dictionary. Specify the keys and their values."),
        (without("Action"), "Action is missing. Specify either Action or NotAction."),
        ({**GOOD, "NotAction": "s3:*"}, "Action and NotAction exclude each other. Specify either Action or NotAction."),
        ({**GOOD, "Action": ["kms:Decrypt", "Encrypt"]}, "Action 'Encrypt' is not valid. Specify a value such as s3:GetObject, or a list."),
        ({**GOOD, "Action": []}, "Action is empty. Specify a value such as s3:GetObject"),
        (without("Resource"), "Resource is missing. Specify either Resource or NotResource."),
        ({**GOOD, "Resource": "my-bucket"}, "Resource 'my-bucket' is not valid. Specify a value such as arn:aws:s3:::my-bucket/*"),
    ],
)
def test_statements_that_are_refused(statement, problem):
    (found,) = iam.check_statements([GOOD, statement])
    assert found.startswith(f"additional_policy_statements: statement 2: {problem}")


def test_every_problem_is_told():
    assert len(list(iam.check_statements([{}, {"Effect": "Allow"}]))) == 5


def test_a_policy_has_no_sid_twice_and_fits():
    assert list(iam.check_policy(policy("us-east-1", ["data"], [], [], [GOOD, GOOD, {**GOOD, "Sid": "Own"}]), [])) == []
    (found,) = iam.check_policy(policy("us-east-1", ["data"], [], [], [{**GOOD, "Sid": "ReadObjects"}]), [])
    assert found == ("additional_policy_statements: the Sid 'ReadObjects' occurs twice in the policy of the role. Choose another Sid.")
    (found,) = iam.check_policy(policy("us-east-1", [], [], [], [GOOD] * 100), ["additional_policy_statements", "read_buckets"])
    assert found.startswith("additional_policy_statements, read_buckets: the policy of the role would have ")
    assert "characters, but IAM allows 10240. Combine statements or buckets, or use your own role with instance_profile." in found
