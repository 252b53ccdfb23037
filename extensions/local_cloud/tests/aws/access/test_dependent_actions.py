"""Permissions for launches that Auto Scaling tests on behalf of the caller."""

from __future__ import annotations

from typing import Any

import pytest

from ..conftest import Account, refused

TEMPLATE = {"ArnLike": {"ec2:LaunchTemplate": "arn:aws:ec2:*:*:launch-template/*"}}


def allow(action: str, condition: dict[str, Any] | None = None, resource: str = "*") -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **({"Condition": condition} if condition else {})}


def with_operator(account: Account, *launch: dict[str, Any]) -> Account:
    """Return clients of a user who may create groups, and whose other permissions for launches are given."""
    any_template = "arn:aws:ec2:*:*:launch-template/*"
    return account.user(
        allow("autoscaling:*"), allow("iam:*"), allow("ec2:CreateTags"), allow("ec2:RunInstances", None, any_template), *launch
    )


@pytest.mark.parametrize("interfaces", [True, False])
@pytest.mark.parametrize(
    ("condition", "allowed"),
    [
        (TEMPLATE, True),
        (TEMPLATE | {"Bool": {"ec2:IsLaunchTemplateResource": "true"}}, False),
        (TEMPLATE | {"Bool": {"ec2:IsLaunchTemplateResource": "false"}}, False),
    ],
)
def test_a_launch_of_a_group_is_allowed_whatever_comes_from_the_template(
    account: Account, interfaces: bool, condition: dict[str, Any], allowed: bool
) -> None:
    """AWS does not document whether the key is true for a resource in an interface that Auto Scaling completes with the subnet."""
    (subnet,) = account.subnets("a")
    vpc = account.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    group = account.ec2.create_security_group(GroupName=account.name(), Description="nodes", VpcId=vpc)["GroupId"]
    data = {"NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [group]}]} if interfaces else {"SecurityGroupIds": [group]}
    template = account.template(**data)
    operator = with_operator(account, allow("ec2:RunInstances", condition))
    if allowed:
        assert operator.group(0, [subnet], template)
    else:
        refused(lambda: operator.group(0, [subnet], template), "AccessDenied", "You are not authorized to use launch template")


def test_a_launch_with_a_template_knows_what_comes_from_the_template(account: Account) -> None:
    (subnet,) = account.subnets("a")
    operator = with_operator(
        account, allow("ec2:RunInstances", TEMPLATE | {"Bool": {"ec2:IsLaunchTemplateResource": "true"}}), allow("ec2:Describe*")
    )
    group = account.template(NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": subnet}])
    request = {"LaunchTemplate": {"LaunchTemplateName": group}, "MinCount": 1, "MaxCount": 1}
    assert operator.ec2.run_instances(**request)["Instances"]
    refused(lambda: operator.ec2.run_instances(**request, ImageId=account.image_id), "UnauthorizedOperation")


def test_a_service_can_have_its_own_code_for_denied_calls(account: Account) -> None:
    topic = account.client("sns").create_topic(Name=account.name("topic"))["TopicArn"]
    operator = account.user(allow("sns:GetTopicAttributes")).client("sns")
    assert operator.get_topic_attributes(TopicArn=topic)
    refused(lambda: operator.publish(TopicArn=topic, Message="text"), "AuthorizationError", "is not authorized to perform: sns:Publish")
