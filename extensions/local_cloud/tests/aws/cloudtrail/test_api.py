"""The event history has AWS's form and limits, and contains what users and AWS itself have done."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import Account, refused

LOOKUP = {"Effect": "Allow", "Action": "cloudtrail:LookupEvents", "Resource": "*"}
TAG = [{"Key": "Name", "Value": "test"}]


def found(account: Account, key: str, value: str, **more: Any) -> list[dict[str, Any]]:
    pages = account.client("cloudtrail").get_paginator("lookup_events")
    attributes = [{"AttributeKey": key, "AttributeValue": value}]
    return [event for page in pages.paginate(LookupAttributes=attributes, **more) for event in page["Events"]]


def until(account: Account, key: str, value: str, names: set[str]) -> dict[str, dict[str, Any]]:
    """Return the newest event of each name, as soon as the history contains events with these names."""
    events = wait_until(lambda: (seen := {e["EventName"]: e for e in found(account, key, value)[::-1]}).keys() >= names and seen, 10)
    return {name: event | {"record": json.loads(event["CloudTrailEvent"])} for name, event in events.items()}


def test_a_call_of_a_user_is_found_by_its_resource(account: Account) -> None:
    user = account.user({"Effect": "Allow", "Action": "ec2:*", "Resource": "*"})
    vpc = user.ec2.create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": TAG}])["Vpc"]["VpcId"]
    account.ec2.delete_vpc(VpcId=vpc)
    events = until(account, "ResourceName", vpc, {"CreateVpc", "DeleteVpc"})
    created = events["CreateVpc"]
    assert (created["Username"], created["ReadOnly"], created["EventSource"]) == (
        user.client("sts").get_caller_identity()["Arn"].rpartition("/")[2],
        "false",
        "ec2.amazonaws.com",
    )
    assert created["Resources"] == [{"ResourceType": "AWS::EC2::VPC", "ResourceName": vpc}]
    record = created["record"]
    assert record["userIdentity"]["type"] == "IAMUser"
    assert record["requestParameters"]["tagSpecificationSet"] == {
        "items": [{"resourceType": "vpc", "tags": [{"key": "Name", "value": "test"}]}]
    }
    assert record["responseElements"]["vpc"]["vpcId"] == vpc
    assert (events["DeleteVpc"]["Username"], events["DeleteVpc"]["record"]["userIdentity"]["type"]) == ("root", "Root")
    assert abs(created["EventTime"].timestamp() - time.time()) < 60


def test_a_denied_call_has_its_error(account: Account) -> None:
    vpc = account.vpc()
    refused(lambda: account.user(LOOKUP).ec2.delete_vpc(VpcId=vpc), "UnauthorizedOperation")
    denied = found(account, "EventName", "DeleteVpc")[0]
    record = json.loads(denied["CloudTrailEvent"])
    assert (record["errorCode"], record["requestParameters"]) == ("Client.UnauthorizedOperation", {"vpcId": vpc})
    assert denied["EventId"] in [event["EventId"] for event in found(account, "ResourceName", vpc)]


def test_what_auto_scaling_does_is_its_own(account: Account) -> None:
    group = account.group(1)
    (instance,) = wait_until(lambda: account.members(group), 10)
    account.groups.update_auto_scaling_group(AutoScalingGroupName=group, DesiredCapacity=0, MinSize=0, MaxSize=0)
    wait_until(lambda: not account.members(group), 10)
    events = until(account, "ResourceName", instance, {"RunInstances", "TerminateInstances"})
    launched, ended = events["RunInstances"]["record"], events["TerminateInstances"]["record"]
    assert launched["userIdentity"]["invokedBy"] == ended["userIdentity"]["invokedBy"] == "autoscaling.amazonaws.com"
    tag = {"key": "aws:autoscaling:groupName", "value": group}
    assert launched["requestParameters"]["tagSpecificationSet"] == {"items": [{"resourceType": "instance", "tags": [tag]}]}
    assert launched["requestParameters"]["launchTemplate"]["version"] == "1"
    (item,) = launched["responseElements"]["instancesSet"]["items"]
    assert (item["instanceId"], item["instanceType"]) == (instance, "p4d.24xlarge")
    assert ended["requestParameters"] == {"instancesSet": {"items": [{"instanceId": instance}]}}
    of_group = until(account, "ResourceName", group, {"CreateAutoScalingGroup", "UpdateAutoScalingGroup"})
    assert of_group["UpdateAutoScalingGroup"]["record"]["requestParameters"]["desiredCapacity"] == 0
    causes = [each["Cause"] for each in account.activities(group)]
    assert "a user request update of AutoScalingGroup constraints to min: 0, max: 0, desired: 0 changing the desired capacity" in causes[0]
    assert f"instance {instance} was selected for termination." in causes[0]
    assert "a user request created an AutoScalingGroup changing the desired capacity from 0 to 1.  At 20" in causes[1]


def test_an_answer_that_is_too_long_is_omitted(account: Account) -> None:
    account.run(account.subnets("a")[0], 100)
    call = json.loads(found(account, "EventName", "RunInstances")[0]["CloudTrailEvent"])
    assert call["requestParameters"]["maxCount"] == 100
    assert call["responseElements"].pop("originalSize") > 100 * 1024
    assert call["responseElements"] == {"omitted": True, "reason": "responseElements too large"}


def test_a_call_of_a_user_to_end_an_instance(account: Account) -> None:
    instance = account.run(account.subnets("a")[0])[0]["InstanceId"]
    account.ec2.terminate_instances(InstanceIds=[instance])
    ended = until(account, "EventName", "TerminateInstances", {"TerminateInstances"})["TerminateInstances"]["record"]
    assert ended["requestParameters"] == {"instancesSet": {"items": [{"instanceId": instance}]}}
    assert ended["responseElements"]["instancesSet"]["items"][0]["instanceId"] == instance
    launched = until(account, "ResourceName", instance, {"RunInstances"})["RunInstances"]["record"]
    assert launched["responseElements"]["instancesSet"]["items"][0]["instanceType"] == "t3.micro"


def test_an_interruption_is_an_event_of_the_service(account: Account) -> None:
    options = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}
    instance = account.run(account.subnets("a")[0], InstanceMarketOptions=options)[0]["InstanceId"]
    wait_until(lambda: account.state(instance) == "running", 10)
    account.control.interrupt(instance)
    record = until(account, "EventName", "BidEvictedEvent", {"BidEvictedEvent"})["BidEvictedEvent"]["record"]
    assert (record["eventType"], record["serviceEventDetails"]) == ("AwsServiceEvent", {"instanceIdSet": [instance]})


def test_newer_actions_of_ec2_have_their_request_as_it_is(account: Account) -> None:
    template = account.template()
    record = until(account, "EventName", "CreateLaunchTemplate", {"CreateLaunchTemplate"})["CreateLaunchTemplate"]["record"]
    assert record["requestParameters"]["CreateLaunchTemplateRequest"]["LaunchTemplateName"] == template
    assert record["responseElements"]["CreateLaunchTemplateResponse"]["launchTemplate"]["launchTemplateName"] == template


def test_times_in_requests(account: Account) -> None:
    """They made the whole history unreadable."""
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    settings = {"InstanceType": "c5.large", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-east-1a", "InstanceCount": 1}
    account.ec2.create_capacity_reservation(**settings, EndDateType="limited", EndDate=end)
    event = until(account, "EventName", "CreateCapacityReservation", {"CreateCapacityReservation"})["CreateCapacityReservation"]
    assert f"{end:%Y-%m-%d}" in event["CloudTrailEvent"]


def test_other_services(account: Account) -> None:
    system = account.efs.create_file_system(CreationToken=account.name(), Tags=TAG)["FileSystemId"]
    record = until(account, "EventName", "CreateFileSystem", {"CreateFileSystem"})["CreateFileSystem"]["record"]
    assert record["eventSource"] == "elasticfilesystem.amazonaws.com"
    assert record["requestParameters"]["tags"] == [{"key": "Name", "value": "test"}]
    assert record["responseElements"]["fileSystemId"] == system
    assert record["awsRegion"] == "us-east-1"


def test_a_request_with_a_date(account: Account) -> None:
    end, name = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2), account.name("schedule")
    target = {"Arn": "arn:aws:scheduler:::aws-sdk:ec2:stopInstances", "RoleArn": f"arn:aws:iam::123456789012:role/{name}", "Input": "{}"}
    client = account.client("scheduler")
    request = {"Name": name, "ScheduleExpression": "rate(1 hour)", "FlexibleTimeWindow": {"Mode": "OFF"}, "Target": target}
    refused(lambda: client.create_schedule(**request, EndDate=end), "ValidationException")
    record = until(account, "EventName", "CreateSchedule", {"CreateSchedule"})["CreateSchedule"]["record"]
    assert (record["requestParameters"]["name"], record["requestParameters"]["endDate"]) == (name, str(end.replace(tzinfo=None)))


def test_secrets_are_hidden(account: Account) -> None:
    name = f"/{account.name()}"
    account.client("ssm").put_parameter(Name=name, Value="a secret", Type="SecureString", Tags=TAG)
    account.template(UserData="YSBzZWNyZXQ=")
    iam = account.client("iam")
    key = iam.create_access_key(UserName=iam.create_user(UserName=account.name())["User"]["UserName"])["AccessKey"]["SecretAccessKey"]
    texts = [event["CloudTrailEvent"] for event in found(account, "ReadOnly", "false")]
    assert not [text for text in texts for secret in ("a secret", "YSBzZWNyZXQ=", key) if secret in text]
    assert [text for text in texts if name in text and '"value": "HIDDEN_DUE_TO_SECURITY_REASONS"' in text and '"value": "test"' in text]


def test_pages_times_and_attributes(account: Account) -> None:
    began = datetime.now(UTC) - timedelta(seconds=2)
    for _ in range(7):
        account.vpc()
    assert len(found(account, "EventName", "CreateVpc", StartTime=began)) >= 7
    client = account.client("cloudtrail")
    asked = {"LookupAttributes": [{"AttributeKey": "EventName", "AttributeValue": "CreateVpc"}], "MaxResults": 3}
    page = client.lookup_events(**asked)
    assert len(page["Events"]) == 3
    rest = client.lookup_events(**asked, NextToken=page["NextToken"])["Events"]
    assert not {each["EventId"] for each in page["Events"]} & {each["EventId"] for each in rest}
    other = [{"AttributeKey": "EventName", "AttributeValue": "DeleteVpc"}]
    refused(lambda: client.lookup_events(LookupAttributes=other, NextToken=page["NextToken"]), "InvalidNextTokenException")
    assert found(account, "EventName", "CreateVpc", EndTime=began - timedelta(days=1)) == []
    assert found(account, "EventId", page["Events"][0]["EventId"])[0]["EventName"] == "CreateVpc"
    assert {each["EventSource"] for each in found(account, "EventSource", "ec2.amazonaws.com")} == {"ec2.amazonaws.com"}
    assert {each["ReadOnly"] for each in found(account, "ReadOnly", "false")} == {"false"}
    assert found(account, "Username", "nobody") == found(account, "AccessKeyId", "x") == found(account, "ResourceType", "AWS::X::Y") == []


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"LookupAttributes": [{"AttributeKey": "EventName", "AttributeValue": "x"}] * 2}, "InvalidLookupAttributesException"),
        ({"MaxResults": 51}, "ValidationException"),
        ({"NextToken": "x"}, "InvalidNextTokenException"),
        ({"EventCategory": "insight"}, "InvalidEventCategoryException"),
        ({"StartTime": 2, "EndTime": 1}, "InvalidTimeRangeException"),
    ],
)
def test_refused_requests(account: Account, request_: dict[str, Any], code: str) -> None:
    refused(lambda: account.client("cloudtrail").lookup_events(**request_), code)


def test_events_are_late_and_end(account: Account) -> None:
    account.control.set_delays(trail=600)
    vpc = account.vpc()
    assert found(account, "ResourceName", vpc) == []
    account.control.advance(601)
    assert [each["EventName"] for each in found(account, "ResourceName", vpc)] == ["CreateVpc"]
    account.control.advance(90 * 24 * 3600)
    assert found(account, "ResourceName", vpc) == []


def test_look_ups_can_be_throttled_and_denied(account: Account) -> None:
    client = account.client("cloudtrail")
    account.control.limit_lookups(2)
    ask: Callable[[], Any] = client.lookup_events
    ask(), ask()
    refused(ask, "ThrottlingException", "Rate exceeded")
    account.control.reset()
    for _ in range(4):
        ask()
    with pytest.raises(ClientError, match="AccessDenied"):
        account.user({**LOOKUP, "Action": "ec2:*"}).client("cloudtrail").lookup_events()
    account.user(LOOKUP).client("cloudtrail").lookup_events()


def test_other_regions_and_accounts_have_their_own(account: Account) -> None:
    vpc = account.vpc()
    assert found(account, "ResourceName", vpc)
    elsewhere = Account(account.url, "eu-west-1")
    assert found(elsewhere, "ResourceName", vpc) == []
