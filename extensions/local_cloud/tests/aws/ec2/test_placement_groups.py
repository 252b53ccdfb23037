"""Placement groups: strategies, types, and zones."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import Account


def test_cluster_placement_groups_are_for_some_types_in_one_zone(account: Account) -> None:
    name, subnets = account.name("placement"), account.subnets("ab")
    account.ec2.create_placement_group(GroupName=name, Strategy="cluster")
    placement = {"Placement": {"GroupName": name}}
    with pytest.raises(ClientError, match=r"InvalidParameterCombination.*not supported by the 't3.micro' instance type"):
        account.run(subnets[0], **placement)
    account.run(subnets[0], InstanceType="m5.large", **placement)
    with pytest.raises(ClientError, match=r"InvalidParameterValue.*us-east-1a.*us-east-1b"):
        account.run(subnets[1], InstanceType="m5.large", **placement)
    with pytest.raises(ClientError, match="You cannot specify multiple Availability Zones and a cluster placement group"):
        account.group(0, subnets, PlacementGroup=name)
    group = account.group(3, subnets, account.template(InstanceType="m5.large", **placement))
    members = wait_until(lambda: len(account.members(group)) == 3 and account.members(group))
    assert {account.instance(each)["Placement"]["AvailabilityZone"] for each in members} == {"us-east-1a"}


def test_placement_groups(account: Account) -> None:
    name = account.name("placement")
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "a", "Value": name}]}]
    created = account.ec2.create_placement_group(GroupName=name, Strategy="cluster", TagSpecifications=tags)["PlacementGroup"]
    assert (created["State"], created["Tags"]) == ("available", [{"Key": "a", "Value": name}])
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Duplicate"):
        account.ec2.create_placement_group(GroupName=name, Strategy="cluster")
    account.ec2.create_tags(Resources=[created["GroupId"]], Tags=[{"Key": "c", "Value": "d"}])
    for filters in ([{"Name": "tag:a", "Values": [name]}], [{"Name": "group-name", "Values": [name]}]):
        found = account.ec2.describe_placement_groups(Filters=filters)["PlacementGroups"]
        assert [each["GroupName"] for each in found] == [name]
    account.ec2.delete_placement_group(GroupName=name)
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Unknown"):
        account.ec2.describe_placement_groups(GroupNames=[name])
