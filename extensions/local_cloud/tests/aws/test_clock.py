"""All times in answers of AWS are times of the clock that tests can advance."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from local_cloud.testing import wait_until

from .conftest import TRUST_EC2, Account, client_of

DAYS = 24 * 3600
DATE = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d")


def times(value: Any, name: str = "") -> Iterator[tuple[str, datetime]]:
    """Yield the times in an answer, also those within texts, each with the name of the member that contains it."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key != "ResponseMetadata":
                yield from times(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from times(each, name)
    elif isinstance(value, datetime):
        yield name, value.astimezone(UTC)
    elif isinstance(value, str):
        yield from ((name, datetime.fromisoformat(each).replace(tzinfo=UTC)) for each in DATE.findall(value))


def answers(account: Account) -> Iterator[Any]:
    """Create resources and yield the answers of AWS about them."""
    ec2, iam, name = account.ec2, account.client("iam"), account.name("clock")
    vpc = account.vpc()
    subnet = account.subnets("a", vpc)[0]
    group = account.group(1, [subnet])
    (instance,) = wait_until(lambda: account.members(group))
    account.groups.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["AZRebalance"])
    yield account.described(group)
    yield account.instance(instance)
    yield ec2.describe_launch_templates(LaunchTemplateNames=[account.template()])
    yield ec2.get_console_output(InstanceId=account.run(subnet)[0]["InstanceId"])["Timestamp"]
    yield ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [instance]}])
    ec2.create_key_pair(KeyName=name)
    yield ec2.describe_key_pairs(KeyNames=[name])
    yield ec2.create_nat_gateway(SubnetId=subnet, ConnectivityType="private")
    yield ec2.describe_spot_price_history(InstanceTypes=["c5.large"], MaxResults=5)
    yield ec2.create_capacity_reservation(
        InstanceType="c5.large", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=1
    )
    account.groups.delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)
    wait_until(lambda: account.state(instance) == "terminated")
    yield account.instance(instance)["StateTransitionReason"]
    yield account.groups.describe_scaling_activities(AutoScalingGroupName=group, IncludeDeletedGroups=True)
    own = [{"AttributeKey": "ResourceName", "AttributeValue": group}]
    yield account.client("cloudtrail").lookup_events(LookupAttributes=own)["Events"]
    yield iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST_EC2))
    yield iam.create_instance_profile(InstanceProfileName=name)
    yield account.client("kms").create_key()["KeyMetadata"]
    yield account.client("ssm").get_parameter(**put_parameter(account, f"/{name}"))["Parameter"]
    yield account.efs.describe_file_systems(FileSystemId=account.efs.create_file_system(CreationToken=name)["FileSystemId"])
    lustre = {"FileSystemType": "LUSTRE", "StorageCapacity": 1200, "LustreConfiguration": {"DeploymentType": "SCRATCH_2"}}
    yield account.client("fsx").create_file_system(SubnetIds=[subnet], **lustre)
    yield account.client("scheduler").get_schedule_group(**schedule_group(account, name))
    s3 = account.client("s3")
    s3.create_bucket(Bucket=name)
    yield next(each for each in s3.list_buckets()["Buckets"] if each["Name"] == name)
    s3.put_object(Bucket=name, Key="object", Body=b"x")
    yield s3.head_object(Bucket=name, Key="object")["LastModified"]


def put_parameter(account: Account, name: str) -> dict[str, str]:
    account.client("ssm").put_parameter(Name=name, Value="x", Type="String")
    return {"Name": name}


def schedule_group(account: Account, name: str) -> dict[str, str]:
    account.client("scheduler").create_schedule_group(Name=name)
    return {"Name": name}


@pytest.mark.parametrize(("advanced", "lag"), [(10 * DAYS, 0), (10 * DAYS, 4 * DAYS)])
def test_all_answers_show_the_same_clock(account: Account, advanced: float, lag: float) -> None:
    account.control.set_delays(clock_lag=lag)
    account.control.advance(advanced)
    expected = datetime.now(UTC) + timedelta(seconds=advanced - lag)
    for answer in answers(account):
        found = list(times(answer, "answer"))
        assert found, answer
        assert [(name, time) for name, time in found if abs(time - expected) > timedelta(minutes=2)] == []


def test_a_session_keeps_the_clock_of_its_caller(account: Account) -> None:
    client = client_of(account, "222222222222", "sts")
    account.control.advance(10 * DAYS)
    client.get_caller_identity()
