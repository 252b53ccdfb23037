"""Unsupported requests result in AWS errors, encoded in the service's wire protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ..conftest import Account


@pytest.mark.parametrize(
    ("service", "call", "code"),
    [
        ("ec2", lambda client: client.describe_capacity_blocks(), "InvalidAction"),
        ("autoscaling", lambda client: client.describe_account_limits(), "InvalidAction"),
        ("iam", lambda client: client.list_service_specific_credentials(), "InvalidAction"),
        ("ssm", lambda client: client.list_nodes(), "InvalidAction"),
        ("efs", lambda client: client.describe_account_preferences(), "InvalidAction"),
        ("fsx", lambda client: client.describe_snapshots(), "InvalidAction"),
    ],
)
def test_actions_that_do_not_exist(account: Account, service: str, call: Callable[[Any], Any], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        call(account.client(service))
    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert "html" not in str(caught.value).lower()


@pytest.mark.parametrize("call", ["describe_instances", "describe_subnets", "describe_vpcs", "describe_nat_gateways"])
def test_filters_that_do_not_exist(account: Account, call: str) -> None:
    account.run(account.subnets()[0])
    account.ec2.create_nat_gateway(SubnetId=account.subnets("a")[0], ConnectivityType="private")
    with pytest.raises(ClientError) as caught:
        getattr(account.ec2, call)(Filters=[{"Name": "no-such-filter", "Values": ["x"]}])
    assert caught.value.response["Error"]["Code"] == "InvalidParameterValue"
    assert "The filter 'no-such-filter' is invalid" in str(caught.value)


def test_a_region_that_does_not_exist(account: Account) -> None:
    with pytest.raises(ClientError) as caught:
        Account(account.url, "us-nowhere-1").ec2.describe_vpcs()
    assert caught.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
    assert "us-nowhere-1" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda ec2: ec2.describe_vpcs(VpcIds=["vpc-0"]), "The vpc ID 'vpc-0' does not exist"),
        (lambda ec2: ec2.describe_security_groups(GroupIds=["sg-0"]), "The security group 'sg-0' does not exist"),
        (lambda ec2: ec2.describe_key_pairs(KeyNames=["mine"]), "The key pair 'mine' does not exist"),
    ],
)
def test_error_texts_are_for_people(account: Account, call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(ClientError) as caught:
        call(account.ec2)
    assert caught.value.response["Error"]["Message"] == text
