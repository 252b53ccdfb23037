"""Tag keys that begin with `aws:` are reserved for AWS."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from .conftest import Account

RESERVED = "aws:autoscaling:groupName"


def specification(kind: str, key: str = RESERVED) -> list[dict[str, object]]:
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": "theirs"}]}]


def group_tag(group: str) -> dict[str, object]:
    return {"ResourceId": group, "ResourceType": "auto-scaling-group", "Key": RESERVED, "Value": "theirs", "PropagateAtLaunch": True}


@pytest.mark.parametrize("key", [RESERVED, "AWS:ec2launchtemplate:id"])
def test_nobody_sets_or_deletes_a_reserved_tag(account: Account, key: str) -> None:
    subnet = account.subnets("a")[0]
    identifier = account.run(subnet)[0]["InstanceId"]
    for call in (account.ec2.create_tags, account.ec2.delete_tags):
        with pytest.raises(ClientError, match=rf"InvalidParameterValue.*Value \( {key} \) for parameter key is invalid. Tag keys starting"):
            call(Resources=[identifier], Tags=[{"Key": "fine", "Value": "1"}, {"Key": key, "Value": "theirs"}])
    assert "Tags" not in account.instance(identifier)


@pytest.mark.parametrize(
    "call",
    [
        lambda account: account.run(account.subnets("a")[0], TagSpecifications=specification("instance")),
        lambda account: account.run(account.subnets("a")[0], TagSpecifications=specification("volume")),
        lambda account: account.template(TagSpecifications=specification("instance")),
        lambda account: account.ec2.create_vpc(CidrBlock="10.7.0.0/16", TagSpecifications=specification("vpc")),
        lambda account: account.group(Tags=[{"Key": RESERVED, "Value": "theirs", "PropagateAtLaunch": True}]),
        lambda account: account.groups.create_or_update_tags(Tags=[group_tag(account.group(0))]),
        lambda account: account.groups.delete_tags(Tags=[group_tag(account.group(0))]),
    ],
)
def test_nothing_is_made_with_a_reserved_tag(account: Account, call: Callable[[Account], object]) -> None:
    with pytest.raises(ClientError, match="Tag keys starting with 'aws:' are reserved for internal use"):
        call(account)


def test_instances_are_found_by_the_group_that_launched_them(account: Account) -> None:
    group = account.group(2)
    account.run(account.subnets("a")[0], TagSpecifications=specification("instance", "autoscaling:groupName"))
    wait_until(lambda: len(account.members(group)) == 2)
    filters = [{"Name": f"tag:{RESERVED}", "Values": [group, "another"]}]
    found = [one for each in account.ec2.describe_instances(Filters=filters)["Reservations"] for one in each["Instances"]]
    assert sorted(one["InstanceId"] for one in found) == sorted(account.members(group))
    assert {tag["Value"] for one in found for tag in one["Tags"] if tag["Key"] == RESERVED} == {group}
