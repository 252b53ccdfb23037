"""Tags of launched instances and their resources, and reserved tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.aws.tags import find_reserved
from local_cloud.testing import wait_until

from ..conftest import Account

FORGED = [{"Key": "aws:autoscaling:groupName", "Value": "bert-workers"}]
SPOT = {"InstanceType": "g5.xlarge", "InstanceMarketOptions": {"MarketType": "spot"}}


def tags(described: dict[str, Any], kind: str = "Tags") -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in described.get(kind, [])}


def launched(account: Account, **data: Any) -> tuple[dict[str, str], ...]:
    """Return the tags of a group's instance, and of the instance's volume, network interface, and Spot request."""
    own = [
        {"Key": "cluster", "Value": "bert", "PropagateAtLaunch": True, "ResourceType": "auto-scaling-group"},
        {"Key": "group", "Value": "only", "PropagateAtLaunch": False, "ResourceType": "auto-scaling-group"},
    ]
    group = account.group(1, account.subnets("a"), account.template(**{**SPOT, **data}), Tags=own)
    instance = account.instance(wait_until(lambda: account.members(group))[0])
    inside = [{"Name": "attachment.instance-id", "Values": [instance["InstanceId"]]}]
    volume = account.ec2.describe_volumes(Filters=inside)["Volumes"][0]
    interface = account.ec2.describe_network_interfaces(Filters=inside)["NetworkInterfaces"][0]
    spot = account.ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[instance["SpotInstanceRequestId"]])["SpotInstanceRequests"][
        0
    ]
    found = tags(instance)
    assert found.pop("aws:autoscaling:groupName") == group
    assert found.pop("aws:ec2launchtemplate:version") == "1"
    assert found.pop("aws:ec2launchtemplate:id").startswith("lt-")
    return found, tags(volume), tags(interface, "TagSet"), tags(spot)


def test_tags_of_the_group_reach_instances_only(account: Account) -> None:
    assert launched(account) == ({"cluster": "bert"}, {}, {}, {})


def test_tags_of_the_template_reach_what_they_name(account: Account) -> None:
    kinds = ("instance", "volume", "network-interface", "spot-instances-request")
    for named in kinds:
        specification = [{"ResourceType": named, "Tags": [{"Key": "for", "Value": named}]}]
        found = launched(account, TagSpecifications=specification)
        assert [each.get("for") for each in found] == [named if each == named else None for each in kinds]


def test_a_tag_of_the_group_wins_over_that_of_the_template(account: Account) -> None:
    specification = [{"ResourceType": "instance", "Tags": [{"Key": "cluster", "Value": "template"}, {"Key": "more", "Value": "1"}]}]
    assert launched(account, TagSpecifications=specification)[0] == {"cluster": "bert", "more": "1"}


def test_an_interface_that_outlives_its_instance_has_no_tag_of_the_group(account: Account) -> None:
    """A search for remaining resources by tag finds the interface only if the launch template specifies tags for interfaces."""
    subnet = account.subnets("a")[0]
    kept = {"NetworkInterfaces": [{"DeviceIndex": 0, "DeleteOnTermination": False}]}
    group = account.group(1, [subnet], account.template(**kept), Tags=[{"Key": "cluster", "Value": "bert", "PropagateAtLaunch": True}])
    wait_until(lambda: account.members(group))
    account.groups.delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)
    there = [{"Name": "subnet-id", "Values": [subnet]}, {"Name": "status", "Values": ["available"]}]
    (left,) = wait_until(lambda: account.ec2.describe_network_interfaces(Filters=there)["NetworkInterfaces"])
    assert left["TagSet"] == []


@pytest.mark.parametrize(
    ("service", "forge", "code"),
    [
        ("ec2", lambda ec2, instance: ec2.create_tags(Resources=[instance], Tags=FORGED), "InvalidParameterValue"),
        ("ec2", lambda ec2, instance: ec2.delete_tags(Resources=[instance], Tags=FORGED), "InvalidParameterValue"),
        (
            "ec2",
            lambda ec2, _: ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": FORGED}]),
            "InvalidParameterValue",
        ),
        (
            "ec2",
            lambda ec2, _: ec2.create_launch_template(
                LaunchTemplateName="forged", LaunchTemplateData={"TagSpecifications": [{"ResourceType": "instance", "Tags": FORGED}]}
            ),
            "InvalidParameterValue",
        ),
        (
            "autoscaling",
            lambda groups, _: groups.create_or_update_tags(
                Tags=[{**FORGED[0], "ResourceId": "a", "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True}]
            ),
            "ValidationError",
        ),
        ("efs", lambda efs, _: efs.create_file_system(CreationToken="forged", Tags=FORGED), "ValidationException"),
        ("iam", lambda iam, _: iam.create_role(RoleName="forged", AssumeRolePolicyDocument="{}", Tags=FORGED), "InvalidInput"),
        ("ssm", lambda ssm, _: ssm.put_parameter(Name="forged", Value="x", Type="String", Tags=FORGED), "ValidationException"),
    ],
)
def test_tags_of_aws_cannot_be_forged(account: Account, service: str, forge: Callable[..., Any], code: str) -> None:
    (instance,) = account.run(account.subnets("a")[0])
    with pytest.raises(ClientError, match="aws:") as caught:
        forge(account.client(service), instance["InstanceId"])
    assert caught.value.response["Error"]["Code"] == code
    assert "aws:autoscaling:groupName" not in tags(account.instance(instance["InstanceId"]))


def test_tags_of_aws_can_be_looked_for(account: Account) -> None:
    wanted = [
        {"Name": "tag:aws:autoscaling:groupName", "Values": ["nobody-s"]},
        {"Name": "tag-key", "Values": ["aws:autoscaling:groupName"]},
    ]
    assert account.ec2.describe_instances(Filters=wanted)["Reservations"] == []
    tagging = account.client("resourcegroupstaggingapi")
    assert tagging.get_resources(TagFilters=[{"Key": "aws:autoscaling:groupName"}])["ResourceTagMappingList"] is not None


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ({"Tags": [{"Key": "a", "Value": "aws:b"}]}, None),
        ({"Tags": [{"Key": "a", "Value": "b"}, {"Key": "AWS:b", "Value": "c"}]}, "AWS:b"),
        ({"Data": {"TagSpecifications": [{"ResourceType": "volume", "Tags": [{"Key": "aws:x", "Value": ""}]}]}}, "aws:x"),
        ({"TagFilters": [{"Key": "aws:x"}], "Filters": [{"Name": "tag:aws:x"}]}, None),
    ],
)
def test_reserved_keys(parameters: Any, key: str | None) -> None:
    assert find_reserved(parameters) == key


def test_a_resource_has_fifty_tags_of_its_own(account: Account) -> None:
    group = account.group(1, account.subnets("a"))
    identifier = wait_until(lambda: account.members(group))[0]
    account.ec2.create_tags(Resources=[identifier], Tags=[{"Key": f"key-{number}", "Value": ""} for number in range(50)])
    account.ec2.create_tags(Resources=[identifier], Tags=[{"Key": "key-1", "Value": "again"}])
    with pytest.raises(ClientError, match="TagLimitExceeded"):
        account.ec2.create_tags(Resources=[identifier], Tags=[{"Key": "one more", "Value": ""}])
