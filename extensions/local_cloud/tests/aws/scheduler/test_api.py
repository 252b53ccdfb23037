"""Schedules and schedule groups are created, changed, listed and deleted, and refused in the same cases as on AWS."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import Account, refused
from .conftest import SDK, TRUST, Scheduler, at

ROLE = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
GROUP_ARN = "arn:aws:scheduler:us-east-1:123456789012:schedule-group"


def later(hours: float = 1) -> str:
    return at(time.time() + hours * 3600)


def test_a_schedule(scheduler: Scheduler) -> None:
    role, expression, start = scheduler.role(), later(), time.time()
    name = scheduler.create(expression, role, Description="a lease", policy={"MaximumRetryAttempts": 3})
    found = scheduler.client.get_schedule(Name=name)
    assert found["Arn"] == f"arn:aws:scheduler:us-east-1:123456789012:schedule/default/{name}"
    assert found["Target"]["RetryPolicy"] == {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 3}
    expected = ("default", name, expression, "UTC", "ENABLED", "NONE", {"Mode": "OFF"}, "a lease")
    names = ("GroupName", "Name", "ScheduleExpression", "ScheduleExpressionTimezone", "State", "ActionAfterCompletion")
    assert tuple(found[each] for each in (*names, "FlexibleTimeWindow", "Description")) == expected
    assert "StartDate" not in found
    assert start - 1 <= found["CreationDate"].timestamp() <= time.time()
    assert name in scheduler.names(NamePrefix=name, State="ENABLED", GroupName="default")
    refused(lambda: scheduler.create(expression, role, Name=name), "ConflictException", name)
    # An update replaces everything
    scheduler.client.update_schedule(**scheduler.request(later(2), role, Name=name, State="DISABLED"))
    changed = scheduler.client.get_schedule(Name=name)
    assert "Description" not in changed
    assert (changed["State"], changed["Target"]["RetryPolicy"]["MaximumRetryAttempts"]) == ("DISABLED", 185)
    assert changed["CreationDate"] == found["CreationDate"] < changed["LastModificationDate"]
    scheduler.client.delete_schedule(Name=name)
    for call in (scheduler.client.get_schedule, scheduler.client.delete_schedule):
        refused(lambda call=call: call(Name=name), "ResourceNotFoundException", f"Schedule {name} does not exist.")  # type: ignore[misc]
    request = scheduler.request(later(), role, Name=name)
    refused(lambda: scheduler.client.update_schedule(**request), "ResourceNotFoundException")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Name": "a b"}, "name"),
        ({"Name": "a" * 65}, "less than or equal to 64"),
        ({"ScheduleExpression": "at(2026-09-08T03:54:26.439)"}, "Invalid Schedule Expression at(2026-09-08T03:54:26.439)."),
        ({"ScheduleExpressionTimezone": "Mars/Base"}, "Mars/Base"),
        ({"FlexibleTimeWindow": {"Mode": "FLEXIBLE"}}, "MaximumWindowInMinutes"),
        ({"FlexibleTimeWindow": {"Mode": "OFF", "MaximumWindowInMinutes": 5}}, "MaximumWindowInMinutes"),
        ({"FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 1441}}, "1440"),
        ({"ScheduleExpression": "rate(1 day)", "StartDate": datetime(2020, 1, 1, tzinfo=UTC)}, "5 minutes ago"),
        ({"ScheduleExpression": "rate(1 day)", "EndDate": datetime(2020, 1, 1, tzinfo=UTC)}, "EndDate"),
        ({"State": "PAUSED"}, "ENABLED, DISABLED"),
    ],
)
def test_create_refuses(scheduler: Scheduler, changes: dict[str, Any], words: str) -> None:
    request = {**scheduler.request(later(), scheduler.role()), **changes}
    refused(lambda: scheduler.client.create_schedule(**request), "ValidationException", words)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"Arn": f"{SDK}:ec2:describeInstances"}, "ValidationException", "describeInstances API is not supported"),
        ({"Arn": f"{SDK}:autoscaling:deleteEverything"}, "ValidationException", "deleteEverything API is not supported"),
        ({"Arn": f"{SDK}:ec2:StopInstances"}, "ValidationException", "StopInstances API is not supported"),
        ({"Arn": f"{SDK}:lunch:eat"}, "ValidationException", "lunch is not a supported service for a target"),
        (
            {"Arn": "arn:aws:scheduler:us-east-1:123456789012:aws-sdk:ec2:stopInstances"},
            "ValidationException",
            "scheduler is not a supported",
        ),
        ({"Arn": "arn:aws:s3:::bucket"}, "ValidationException", "s3 is not a supported service for a target"),
        ({"Arn": "ec2:stopInstances"}, "ValidationException", "not in correct format"),
        ({"Arn": "arn:aws:sqs:us-east-1:123456789012:queue"}, "UnsupportedOperation", "templated targets (sqs)"),
        ({"Input": None}, "ValidationException", "You must provide an input"),
        ({"Input": "{'InstanceIds': []}"}, "ValidationException", "Invalid RequestJson provided"),
        ({"Input": "[]"}, "ValidationException", "Invalid RequestJson provided"),
        ({"Input": '{"instanceIds": ["i-0"]}'}, "ValidationException", "missing the following field(s): InstanceIds."),
        ({"RetryPolicy": {"MaximumRetryAttempts": 186}}, "ValidationException", "185"),
        ({"DeadLetterConfig": {"Arn": "arn:aws:sqs:us-east-1:123456789012:q"}}, "UnsupportedOperation", "DeadLetterConfig"),
        ({"RoleArn": "arn:aws:iam::123456789012:role/nobody"}, "ValidationException", ROLE),
        ({"RoleArn": "nobody"}, "ValidationException", "roleArn"),
    ],
)
def test_create_refuses_targets(scheduler: Scheduler, changes: dict[str, Any], code: str, words: str) -> None:
    request = scheduler.request(later(), scheduler.role())
    merged = {**request["Target"], **changes}
    request["Target"] = {name: value for name, value in merged.items() if value is not None}
    refused(lambda: scheduler.client.create_schedule(**request), code, words)


def condition(**keys: str) -> dict[str, Any]:
    return {**TRUST, "Condition": {"ArnLike" if name == "SourceArn" else "StringEquals": {f"aws:{name}": keys[name]} for name in keys}}


@pytest.mark.parametrize(
    ("trust", "accepted"),
    [
        ({**TRUST, "Principal": {"Service": "ec2.amazonaws.com"}}, False),
        (condition(SourceAccount="123456789012"), True),
        (condition(SourceAccount="210987654321"), False),
        (condition(SourceAccount="123456789012", SourceArn=f"{GROUP_ARN}/default"), True),
        (condition(SourceArn="arn:aws:scheduler:*:123456789012:schedule-group/*"), True),
        (condition(SourceArn=f"{GROUP_ARN}/other"), False),
        # The source is the schedule group, and not the schedule
        (condition(SourceArn="arn:aws:scheduler:us-east-1:123456789012:schedule/default/*"), False),
    ],
)
def test_the_trust_policy_of_the_role(scheduler: Scheduler, trust: dict[str, Any], accepted: bool) -> None:
    role = scheduler.role(trust=trust)
    if accepted:
        scheduler.create(later(), role)
    else:
        refused(lambda: scheduler.create(later(), role), "ValidationException", ROLE)


def test_a_new_role_cannot_be_assumed_at_first(scheduler: Scheduler) -> None:
    scheduler.account.control.set_delays(scheduler_role=60)
    role = scheduler.role()
    refused(lambda: scheduler.create(later(), role), "ValidationException", ROLE)
    scheduler.account.control.set_delays(scheduler_role=0)
    scheduler.create(later(), role)


def test_groups(scheduler: Scheduler) -> None:
    client, name = scheduler.client, scheduler.account.name("leases")
    arn = client.create_schedule_group(Name=name, Tags=[{"Key": "team", "Value": "speech"}])["ScheduleGroupArn"]
    assert arn == f"{GROUP_ARN}/{name}"
    refused(lambda: client.create_schedule_group(Name=name), "ConflictException", name)
    client.tag_resource(ResourceArn=arn, Tags=[{"Key": "cluster", "Value": "bert"}])
    client.untag_resource(ResourceArn=arn, TagKeys=["team"])
    assert client.list_tags_for_resource(ResourceArn=arn)["Tags"] == [{"Key": "cluster", "Value": "bert"}]
    assert client.get_schedule_group(Name=name)["State"] == "ACTIVE"
    schedule = scheduler.create(later(), scheduler.role(), GroupName=name)
    assert scheduler.names(GroupName=name) == [schedule]
    refused(lambda: client.get_schedule(Name=schedule), "ResourceNotFoundException")
    scheduler.account.control.set_delays(schedule_group=30)
    client.delete_schedule_group(Name=name)
    assert client.get_schedule_group(Name=name)["State"] == "DELETING"
    assert client.get_schedule(Name=schedule, GroupName=name)["State"] == "ENABLED"
    refused(lambda: scheduler.create(later(), scheduler.role(), GroupName=name), "ConflictException")
    scheduler.account.control.advance(30)
    for call in (client.get_schedule_group, client.delete_schedule_group):
        refused(lambda call=call: call(Name=name), "ResourceNotFoundException")  # type: ignore[misc]
    refused(lambda: scheduler.create(later(), scheduler.role(), GroupName=name), "ResourceNotFoundException", name)
    refused(lambda: client.delete_schedule_group(Name="default"), "ValidationException", "default")
    refused(lambda: client.tag_resource(ResourceArn=arn, Tags=[]), "ResourceNotFoundException")


def test_schedules_have_no_tags(scheduler: Scheduler) -> None:
    name = scheduler.create(later(), scheduler.role())
    arn = scheduler.client.get_schedule(Name=name)["Arn"]
    refused(lambda: scheduler.client.tag_resource(ResourceArn=arn, Tags=[{"Key": "a", "Value": "b"}]), "ValidationException")


def test_schedules_are_listed_in_pages(scheduler: Scheduler) -> None:
    group = scheduler.account.name("group")
    scheduler.client.create_schedule_group(Name=group)
    role = scheduler.role()
    created = {scheduler.create(later(), role, GroupName=group) for _number in range(3)}
    first = scheduler.client.list_schedules(GroupName=group, MaxResults=2)
    assert len(first["Schedules"]) == 2
    assert first["Schedules"][0]["Target"] == {"Arn": f"{SDK}:ec2:stopInstances"}
    assert set(scheduler.names(GroupName=group)) == created


def user(account: Account, action: str, resource: str, *more: dict[str, Any]) -> Any:
    return account.user({"Effect": "Allow", "Action": f"scheduler:{action}", "Resource": resource}, *more).client("scheduler")


def test_permissions_for_schedules(scheduler: Scheduler) -> None:
    account, role = scheduler.account, scheduler.role()
    own, others = ("arn:aws:scheduler:us-east-1:123456789012:schedule/default/own-*", scheduler.request(later(), role))
    request = {**others, "Name": account.name("own")}

    def passing(service: str) -> dict[str, Any]:
        return {
            "Effect": "Allow",
            "Action": "iam:PassRole",
            "Resource": role,
            "Condition": {"StringEquals": {"iam:PassedToService": service}},
        }

    for without in (user(account, "*", own), user(account, "*", own, passing("ec2.amazonaws.com"))):
        refused(lambda without=without: without.create_schedule(**request), "AccessDeniedException", "iam:PassRole")  # type: ignore[misc]
    client = user(account, "*", own, passing("scheduler.amazonaws.com"))
    client.create_schedule(**request)
    client.update_schedule(**request)
    client.get_schedule(Name=request["Name"])
    refused(lambda: client.create_schedule(**others), "AccessDeniedException", f"schedule/default/{others['Name']}")
    refused(client.list_schedules, "AccessDeniedException", "scheduler:ListSchedules on resource: *")
    client.delete_schedule(Name=request["Name"])
    user(account, "ListSchedules", "*").list_schedules()


def test_permissions_for_groups(scheduler: Scheduler) -> None:
    account = scheduler.account
    name, tags = account.name("mine"), [{"Key": "team", "Value": "speech"}]
    by_tag = {"StringEquals": {"aws:ResourceTag/team": "speech"}}
    groups = f"{GROUP_ARN}/mine-*"
    creator = user(account, "CreateScheduleGroup", groups)
    refused(lambda: creator.create_schedule_group(Name=name, Tags=tags), "AccessDeniedException", "scheduler:TagResource")
    scheduler.client.create_schedule_group(Name=name, Tags=tags)
    delete = {"Effect": "Allow", "Action": "scheduler:DeleteScheduleGroup", "Resource": groups, "Condition": by_tag}
    schedules = {"Effect": "Allow", "Action": "scheduler:DeleteSchedule", "Resource": f"{GROUP_ARN[:-6]}/{name}/*"}
    lacking = account.user(delete).client("scheduler")
    refused(lambda: lacking.delete_schedule_group(Name=name), "AccessDeniedException", "scheduler:DeleteSchedule on")
    by_key = {"ForAllValues:StringEquals": {"aws:TagKeys": ["cluster"]}}
    untag = {"Effect": "Allow", "Action": "scheduler:UntagResource", "Resource": groups, "Condition": by_key}
    both = account.user(delete, schedules, untag).client("scheduler")
    both.untag_resource(ResourceArn=f"{GROUP_ARN}/{name}", TagKeys=["cluster"])
    refused(lambda: both.untag_resource(ResourceArn=f"{GROUP_ARN}/{name}", TagKeys=["team"]), "AccessDeniedException", "UntagResource")

    def deleted() -> bool:
        try:
            both.delete_schedule_group(Name=name)
        except ClientError:  # the tags of the group are not visible yet
            return False
        return True

    wait_until(deleted)


def test_an_end_in_the_future_is_accepted(scheduler: Scheduler) -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)
    name = scheduler.create("cron(0 3 * * ? *)", scheduler.role(), EndDate=end, ScheduleExpressionTimezone="Asia/Seoul")
    assert scheduler.client.get_schedule(Name=name)["EndDate"] == end
