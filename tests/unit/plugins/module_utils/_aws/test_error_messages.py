"""Tests of the messages about errors of AWS."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.error_messages import (
    connection_advice,
    denial,
    denial_advice,
    rejection,
)
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError


def test_an_endpoint_that_does_not_answer_is_explained(monkeypatch):
    error = EndpointConnectionError(endpoint_url="http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "start the local cloud again with local-cloud start or make train" in connection_advice(error)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    for one in (error, ConnectTimeoutError(endpoint_url="https://sts.us-east-1.amazonaws.com/")):
        assert "In a VPC without internet access, the service needs a VPC endpoint." in connection_advice(one)
    assert connection_advice(ValueError("other")) == ""


def test_rejected_credentials_are_named(monkeypatch):
    refused = ClientError({"Error": {"Code": "AuthFailure", "Message": "no"}}, "DescribeInstances")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA0")
    assert rejection(refused, "us-east-1") == (
        "AWS does not accept the credentials in us-east-1 (AuthFailure). The environment variables AWS_ACCESS_KEY_ID (AKIA0) and "
        "AWS_SECRET_ACCESS_KEY set them. Sign in again, or correct the keys. To see where the keys come from, run: aws configure list\nTo "
        "test the credentials, run: aws sts get-caller-identity"
    )
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert rejection(refused, "af-south-1").startswith(
        "AWS does not accept the credentials in af-south-1 (AuthFailure). Sign in again, or correct the keys. If other regions accept "
        "these credentials, enable af-south-1 for the account. To see"
    )
    for region in ("cn-north-1", "us-gov-west-1", "eusc-de-east-1"):
        assert "enable" not in rejection(refused, region), "only the partition aws has regions that accounts can disable"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "You are not authorized to perform this operation. User: arn:aws:iam::1:user/a is not authorized to perform: ec2:DescribeVpcs.",
            "User: arn:aws:iam::1:user/a is not authorized to perform: ec2:DescribeVpcs",
        ),
        ("You are not authorized to perform this operation.", "These credentials may not call DescribeVpcs (UnauthorizedOperation)"),
        ("Denied by a policy", "These credentials may not call DescribeVpcs (UnauthorizedOperation: Denied by a policy)"),
    ],
)
def test_a_denied_call_is_told_once_with_what_to_do(message, told):
    error = ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": message}}, "DescribeVpcs")
    assert denial(error) == f"{told}. Attach the policies from docs/permissions.md to this identity, or use other credentials."


def test_a_launch_that_auto_scaling_may_not_make_is_told_with_what_aws_checks():
    message = "You are not authorized to use launch template: lt-0123456789abcdef0"
    told = denial(ClientError({"Error": {"Code": "AccessDenied", "Message": message}}, "CreateAutoScalingGroup"))
    assert told.startswith(f"These credentials may not call CreateAutoScalingGroup (AccessDenied: {message}). Auto Scaling checks ec2:RunI")
    assert told.endswith(
        "iam:PassRole. If the template refers to security groups or a role of yours, the policies must allow their ARNs "
        "(--adopt). Attach the policies from docs/permissions.md to this identity, or use other credentials."
    )
    assert denial_advice(ClientError({"Error": {"Code": "Throttling", "Message": message}}, "CreateAutoScalingGroup")) == ""
