"""Tests of the results of modules that use AWS, and of the messages about failed API calls."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import (
    AnsibleAWSModule,
    connection_advice,
    denial,
    denial_advice,
    outcome_is_unknown,
    rejection,
)
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError

# The module runs in a separate process, because Ansible stores warnings elsewhere in a process that has imported the controller's modules.
MODULE = f"""
from ansible.module_utils.testing import patch_module_args
from {AnsibleAWSModule.__module__} import AnsibleAWSModule

with patch_module_args():
    module = AnsibleAWSModule(argument_spec=dict())
    module.warn("the master has no public address")
    module.{{end}}
"""


@pytest.mark.parametrize("end", ["exit_json()", "fail_json(msg='no')"])
def test_a_warning_is_returned_once_and_without_a_deprecation(end):
    result = json.loads(subprocess.run([sys.executable, "-c", MODULE.format(end=end)], capture_output=True, text=True, check=False).stdout)
    assert len(result["warnings"]) == 1
    assert "the master has no public address" in str(result["warnings"])
    assert "deprecations" not in result


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
        "AWS_SECRET_ACCESS_KEY set them. Sign in again, or correct the keys. To see where the keys come from, run: aws configure list. To "
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


@pytest.mark.parametrize(
    ("operation", "code", "unknown"),
    [
        ("AddRoleToInstanceProfile", "LimitExceeded", True),
        ("CreateRole", "LimitExceeded", False),
        ("CreateAutoScalingGroup", "LimitExceeded", False),
        ("CreateRole", "EntityAlreadyExists", True),
        ("AddRoleToInstanceProfile", "AccessDenied", False),
    ],
)
def test_an_exhausted_quota_is_not_a_call_that_was_made_before(operation, code, unknown):
    error = ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 409}}, operation)
    assert outcome_is_unknown(error) is unknown
