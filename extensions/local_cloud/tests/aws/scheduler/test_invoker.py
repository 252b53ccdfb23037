"""Schedules call AWS as their role when they are due."""

from __future__ import annotations

import json
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from local_cloud.aws.app import AwsApi
from local_cloud.aws.context import CLOUD
from local_cloud.testing import wait_until
from moto.core.base_backend import BackendDict

from ..conftest import Account, Hosts, refused
from .conftest import Scheduler, at

HOUR = 3600
GROUPS = "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:*:autoScalingGroupName"
DELETE = "autoscaling:DeleteAutoScalingGroup"


def deletion(group: str) -> dict[str, Any]:
    return {"AutoScalingGroupName": group, "ForceDelete": True}


def lease(scheduler: Scheduler, group: str, role: str, seconds: float = HOUR, **changes: Any) -> str:
    """Create a schedule that deletes a group, and return its name."""
    target = "autoscaling:deleteAutoScalingGroup"
    return scheduler.create(at(time.time() + seconds), role, target, given=deletion(group), ActionAfterCompletion="DELETE", **changes)


def test_a_lease_ends(scheduler: Scheduler, account: Account) -> None:
    """The group has a minimum size, and its instances are protected from scale-in."""
    group = account.group(2, MinSize=1, NewInstancesProtectedFromScaleIn=True)
    members = wait_until(lambda: account.members(group) if len(account.members(group)) == 2 else [])
    name = lease(scheduler, group, scheduler.allowed(DELETE, f"{GROUPS}/{group}"))
    account.control.advance(HOUR - 60)
    assert account.described(group)
    assert "Status" not in (account.described(group) or {})
    assert scheduler.client.get_schedule(Name=name)
    assert account.control.advance(120) == pytest.approx(time.time() + HOUR + 60, abs=30)
    wait_until(lambda: account.described(group) is None)
    assert {account.state(each) for each in members} <= {"shutting-down", "terminated"}
    refused(lambda: scheduler.client.get_schedule(Name=name), "ResourceNotFoundException")
    (made,) = [each for each in account.control.calls() if each["action"] == "DeleteAutoScalingGroup"]
    assert made["parameters"] == deletion(group)
    assert f"/schedule-{name}" in account.control.decisions()[-1]["caller"]


def test_a_group_that_launches_is_deleted(scheduler: Scheduler, account: Account, hosts: Hosts) -> None:
    hosts.boots.clear()
    group = account.group(1, MinSize=1)
    wait_until(lambda: account.members(group, "Pending"))
    account.control.set_capacity({"p4d.24xlarge": {"us-east-1a": 0, "us-east-1b": 0}})
    account.groups.update_auto_scaling_group(AutoScalingGroupName=group, DesiredCapacity=3)
    wait_until(lambda: any(each["StatusCode"] == "Failed" for each in account.activities(group)))
    refused(lambda: account.groups.delete_auto_scaling_group(AutoScalingGroupName=group), "ResourceInUse")
    lease(scheduler, group, scheduler.allowed(DELETE), 1)
    account.control.advance(1)
    wait_until(lambda: account.described(group) is None)


@pytest.mark.parametrize(
    ("resource", "condition", "ends"),
    [
        ("*", {"StringEquals": {"aws:ResourceTag/deeplearning:cluster": "bert"}}, True),
        ("*", {"StringEquals": {"autoscaling:ResourceTag/deeplearning:cluster": "bert"}}, True),
        ("*", {"StringEquals": {"aws:ResourceTag/deeplearning:cluster": "gpt"}}, False),
        ("*", {"Bool": {"autoscaling:ForceDelete": "true"}}, True),
        ("*", {"Bool": {"autoscaling:ForceDelete": "false"}}, False),
        (f"{GROUPS}/group-*", {}, True),
        (f"{GROUPS}/other-*", {}, False),
    ],
)
def test_the_policy_of_the_role_decides(
    scheduler: Scheduler, account: Account, resource: str, condition: dict[str, Any], ends: bool
) -> None:
    account.control.set_delays(tag_visibility=0)
    group = account.group(0, Tags=[{"Key": "deeplearning:cluster", "Value": "bert", "PropagateAtLaunch": True}])
    lease(scheduler, group, scheduler.allowed(DELETE, resource, **condition), 1, policy={"MaximumRetryAttempts": 0})
    account.control.advance(2)
    assert (account.described(group) is None) is ends
    assert scheduler.attempts("DeleteAutoScalingGroup") == 1


def test_a_denied_call_is_repeated_until_it_is_allowed(scheduler: Scheduler, account: Account) -> None:
    group, role = account.group(0), scheduler.role()
    name = lease(scheduler, group, role)
    account.control.advance(HOUR + 10)
    denied = scheduler.attempts("DeleteAutoScalingGroup")
    assert 3 <= denied <= 5
    assert account.described(group)
    assert scheduler.client.get_schedule(Name=name)
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": DELETE, "Resource": "*"}]}
    account.client("iam").put_role_policy(RoleName=role.rpartition("/")[2], PolicyName="policy", PolicyDocument=json.dumps(policy))
    account.control.advance(60)
    assert account.described(group) is None
    assert name not in scheduler.names()
    made = scheduler.attempts("DeleteAutoScalingGroup")
    account.control.advance(24 * HOUR)
    assert scheduler.attempts("DeleteAutoScalingGroup") == made > denied


@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        ({"MaximumRetryAttempts": 0}, 1),
        ({"MaximumRetryAttempts": 3}, 4),
        ({"MaximumEventAgeInSeconds": 60}, 6),  # after 0, 1, 3, 7, 15 and 31 seconds
        ({}, range(170, 187)),
    ],
)
def test_retries_end(scheduler: Scheduler, account: Account, policy: dict[str, int], attempts: Any) -> None:
    name = lease(scheduler, "group-that-does-not-exist", scheduler.allowed(DELETE), policy=policy)
    account.control.advance(26 * HOUR)
    made = scheduler.attempts("DeleteAutoScalingGroup")
    assert made in attempts if isinstance(attempts, range) else made == attempts
    assert name not in scheduler.names()


def test_a_role_that_does_not_trust_the_scheduler_any_more_is_not_used(scheduler: Scheduler, account: Account) -> None:
    group, role = account.group(0), scheduler.allowed(DELETE)
    lease(scheduler, group, role, policy={"MaximumRetryAttempts": 1})
    statement = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    account.client("iam").update_assume_role_policy(RoleName=role.rpartition("/")[2], PolicyDocument=trust)
    account.control.advance(2 * HOUR)
    assert account.described(group)
    assert not scheduler.attempts("DeleteAutoScalingGroup")


def test_a_schedule_waits_for_its_time_without_an_advance(scheduler: Scheduler, account: Account) -> None:
    group = account.group(0)
    lease(scheduler, group, scheduler.allowed(DELETE), 3)
    assert account.described(group)
    wait_until(lambda: account.described(group) is None, 30)


def test_a_time_in_the_past_is_accepted_and_the_target_invoked(scheduler: Scheduler, account: Account) -> None:
    group = account.group(0)
    lease(scheduler, group, scheduler.allowed(DELETE), -2 * HOUR)
    wait_until(lambda: account.described(group) is None, 30)


def test_a_schedule_that_is_enabled_too_late_invokes_its_target_at_once(scheduler: Scheduler, account: Account) -> None:
    group, role = account.group(0), scheduler.allowed(DELETE)
    name = lease(scheduler, group, role, 60, State="DISABLED")
    account.control.advance(HOUR)
    assert account.described(group)
    target = scheduler.client.get_schedule(Name=name)["Target"]
    expression = scheduler.client.get_schedule(Name=name)["ScheduleExpression"]
    scheduler.client.update_schedule(**{**scheduler.request(expression, role, Name=name), "Target": target})
    wait_until(lambda: account.described(group) is None, 30)
    assert scheduler.client.get_schedule(Name=name)["State"] == "ENABLED"  # the update has reset ActionAfterCompletion


def test_a_schedule_that_is_deleted_or_moved_does_nothing_at_the_old_time(scheduler: Scheduler, account: Account) -> None:
    role = scheduler.allowed(DELETE)
    kept, extended = account.group(0), account.group(0)
    scheduler.client.delete_schedule(Name=lease(scheduler, kept, role))
    name = lease(scheduler, extended, role)
    target = "autoscaling:deleteAutoScalingGroup"
    request = scheduler.request(at(time.time() + 3 * HOUR), role, target, given=deletion(extended), Name=name)
    scheduler.client.update_schedule(**request)
    account.control.advance(2 * HOUR)
    assert account.described(kept)
    assert account.described(extended)
    account.control.advance(2 * HOUR)
    assert account.described(kept)
    assert account.described(extended) is None


def test_a_change_shortly_before_the_time_is_too_late(scheduler: Scheduler, account: Account) -> None:
    account.control.set_delays(schedule_change=60)
    group = account.group(0)
    name = lease(scheduler, group, scheduler.allowed(DELETE), 30)
    scheduler.client.delete_schedule(Name=name)
    account.control.advance(31)
    assert account.described(group) is None


@pytest.mark.parametrize(
    ("delays", "window", "latest"),
    [({"schedule_latency": 59}, {"Mode": "OFF"}, 59), ({}, {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 5}, 300)],
)
def test_a_target_is_invoked_late(
    scheduler: Scheduler, account: Account, delays: dict[str, float], window: dict[str, Any], latest: float
) -> None:
    account.control.set_delays(**delays)
    group = account.group(0)
    lease(scheduler, group, scheduler.allowed(DELETE), 60, FlexibleTimeWindow=window)
    account.control.advance(60 + latest - 20)
    assert account.described(group)
    account.control.advance(25)
    assert account.described(group) is None


@pytest.mark.parametrize(
    ("target", "given", "done"),
    [
        ("autoscaling:setDesiredCapacity", {"DesiredCapacity": 0}, lambda group: not group["Instances"]),
        ("autoscaling:updateAutoScalingGroup", {"MinSize": 0, "MaxSize": 0}, lambda group: not group["Instances"]),
        ("autoscaling:suspendProcesses", {"ScalingProcesses": ["Launch"]}, lambda group: group["SuspendedProcesses"]),
    ],
)
def test_actions_of_groups(scheduler: Scheduler, account: Account, target: str, given: dict[str, Any], done: Any) -> None:
    group = account.group(1)
    wait_until(lambda: account.members(group))
    role = scheduler.allowed("autoscaling:*", f"{GROUPS}/{group}")
    scheduler.create(at(time.time() + HOUR), role, target, given={"AutoScalingGroupName": group, **given})
    account.control.advance(2 * HOUR)
    wait_until(lambda: done(account.described(group)))


@pytest.mark.parametrize(("action", "state"), [("stopInstances", "stopped"), ("terminateInstances", "terminated")])
def test_actions_of_instances(scheduler: Scheduler, account: Account, action: str, state: str) -> None:
    instance = account.run(account.subnets("a")[0])[0]["InstanceId"]
    wait_until(lambda: account.state(instance) == "running")
    role = scheduler.allowed(f"ec2:{action[0].upper()}{action[1:]}", f"arn:aws:ec2:us-east-1:123456789012:instance/{instance}")
    scheduler.create(at(time.time() + HOUR), role, f"ec2:{action}", given={"InstanceIds": [instance]})
    account.control.advance(HOUR + 1)  # ten minutes later, a terminated instance is no longer listed
    wait_until(lambda: account.state(instance) == state)


def test_a_message(scheduler: Scheduler, account: Account) -> None:
    topic = account.client("sns").create_topic(Name=account.name("topic"))["TopicArn"]
    sqs = account.client("sqs")
    queue = sqs.create_queue(QueueName=account.name("queue"))["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    account.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    given = {"TopicArn": topic, "Message": "It is <aws.scheduler.scheduled-time>, attempt <aws.scheduler.attempt-number>."}
    scheduler.create("at(2026-01-01T10:00:00)", scheduler.allowed("sns:Publish", topic), "sns:publish", given=given)
    (message,) = wait_until(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"), 30)
    assert json.loads(message["Body"])["Message"] == "It is 2026-01-01T10:00:00Z, attempt 1."


def test_a_rate_begins_at_once_and_ends(scheduler: Scheduler, account: Account) -> None:
    group = account.group(0)
    given = {"AutoScalingGroupName": group, "ScalingProcesses": ["Launch"]}
    target = "autoscaling:suspendProcesses"
    end = time.time() + 3 * HOUR - 60
    role = scheduler.allowed("autoscaling:SuspendProcesses")
    name = scheduler.create("rate(1 hour)", role, target, given=given, EndDate=end, ActionAfterCompletion="DELETE")
    wait_until(lambda: scheduler.attempts("SuspendProcesses") == 1, 30)
    account.control.advance(HOUR)
    assert scheduler.attempts("SuspendProcesses") == 2
    assert name in scheduler.names()
    account.control.advance(5 * HOUR)
    assert scheduler.attempts("SuspendProcesses") == 3
    assert name not in scheduler.names()


def test_occurrences_that_nobody_could_make_are_skipped(scheduler: Scheduler, account: Account) -> None:
    """The local cloud is stopped for ten hours."""
    given = {"AutoScalingGroupName": account.group(0), "ScalingProcesses": ["Launch"]}
    scheduler.create("rate(1 hour)", scheduler.allowed("autoscaling:*"), "autoscaling:suspendProcesses", given=given)
    wait_until(lambda: scheduler.attempts("SuspendProcesses") == 1, 30)
    with CLOUD.lock:
        CLOUD.clock._advanced += 10 * HOUR + 60
    account.control.advance(HOUR)
    assert scheduler.attempts("SuspendProcesses") == 3


def test_a_schedule_that_is_changed_during_its_retries_is_kept(scheduler: Scheduler, account: Account) -> None:
    role = scheduler.role()
    name = lease(scheduler, account.group(0), role, policy={"MaximumRetryAttempts": 8})
    account.control.advance(HOUR + 5)
    request = scheduler.request(at(time.time() + HOUR), role, Name=name, State="DISABLED", ActionAfterCompletion="DELETE")
    scheduler.client.update_schedule(**request)
    account.control.advance(24 * HOUR)
    assert scheduler.attempts("DeleteAutoScalingGroup") == 9
    assert scheduler.client.get_schedule(Name=name)["State"] == "DISABLED"


def test_schedules_of_a_deleted_group_do_nothing(scheduler: Scheduler, account: Account) -> None:
    group, name = account.group(0), account.name("leases")
    scheduler.client.create_schedule_group(Name=name)
    lease(scheduler, group, scheduler.allowed(DELETE), GroupName=name)
    scheduler.client.delete_schedule_group(Name=name)
    account.control.advance(2 * HOUR)
    assert account.described(group)
    assert not scheduler.attempts("DeleteAutoScalingGroup")


def test_faults_are_retried(scheduler: Scheduler, account: Account) -> None:
    group = account.group(0)
    lease(scheduler, group, scheduler.allowed(DELETE))
    account.control.set_faults([{"action": "DeleteAutoScalingGroup", "code": "InternalFailure", "status": 500, "times": 2}])
    account.control.advance(HOUR + 2)
    assert account.described(group) or scheduler.attempts("DeleteAutoScalingGroup") == 3  # on a busy machine, the pause is over
    account.control.advance(10)
    assert account.described(group) is None
    assert scheduler.attempts("DeleteAutoScalingGroup") == 3


def test_another_region(elsewhere_scheduler: Scheduler, elsewhere: Account) -> None:
    group = elsewhere.group(0)
    lease(elsewhere_scheduler, group, elsewhere_scheduler.allowed(DELETE, GROUPS.replace("us-east-1", "eu-west-1") + "/*"))
    elsewhere.control.advance(2 * HOUR)
    assert elsewhere.described(group) is None


def test_schedules_come_back(scheduler: Scheduler, account: Account, cloud: AwsApi, tmp_path: Path) -> None:
    """One schedule is not yet due, and the target of the other has been invoked once without success."""
    role, refused_role = scheduler.allowed(DELETE), scheduler.role()
    waiting, failing = account.group(0), account.group(0)
    name = lease(scheduler, waiting, role, 3 * HOUR)
    lease(scheduler, failing, refused_role)
    account.control.advance(HOUR + 30)
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": DELETE, "Resource": "*"}]}
    account.client("iam").put_role_policy(RoleName=refused_role.rpartition("/")[2], PolicyName="p", PolicyDocument=json.dumps(policy))

    cloud.save(tmp_path / "state")
    BackendDict.reset()
    CLOUD.clock.reset()
    cloud.load(tmp_path / "state")

    assert scheduler.client.get_schedule(Name=name)["State"] == "ENABLED"
    account.control.advance(120)
    assert account.described(failing) is None
    assert account.described(waiting)
    account.control.advance(2 * HOUR)
    assert account.described(waiting) is None


def test_a_call_that_was_not_finished_is_made_again(scheduler: Scheduler, account: Account, cloud: AwsApi, tmp_path: Path) -> None:
    group = account.group(0)
    account.control.set_faults([{"action": "DeleteAutoScalingGroup", "pause": "before"}])
    lease(scheduler, group, scheduler.allowed(DELETE), -HOUR, policy={"MaximumRetryAttempts": 0})
    account.control.wait_until_paused()
    cloud.save(tmp_path / "state")
    account.control.set_faults([])
    account.control.resume(execute=False)
    wait_until(lambda: not CLOUD.invocations)
    assert account.described(group)

    BackendDict.reset()
    cloud.load(tmp_path / "state")

    wait_until(lambda: account.described(group) is None)


def test_the_clock(scheduler: Scheduler, account: Account) -> None:
    """Responses and schedules show the time of the clock, and a reset shows this machine's time again."""
    now = account.control.advance(2 * HOUR)
    assert now == pytest.approx(time.time() + 2 * HOUR, abs=30)
    name = scheduler.create(at(now + HOUR), scheduler.role())
    found = scheduler.client.get_schedule(Name=name)
    shown = parsedate_to_datetime(found["ResponseMetadata"]["HTTPHeaders"]["date"])
    for moment in (found["CreationDate"], shown):
        assert moment.timestamp() == pytest.approx(now, abs=30)
    file_system = account.efs.create_file_system(CreationToken=account.name("token"))["FileSystemId"]
    account.control.set_delays(file_system=HOUR)
    account.efs.delete_file_system(FileSystemId=file_system)
    account.control.reset()
    assert account.control.advance(0) == pytest.approx(time.time(), abs=30)
    states = [each["LifeCycleState"] for each in account.efs.describe_file_systems(FileSystemId=file_system)["FileSystems"]]
    assert states == ["deleting"]
    account.control.advance(HOUR)
    refused(lambda: account.efs.describe_file_systems(FileSystemId=file_system), "FileSystemNotFound")
    with pytest.raises(ValueError, match="at least 0"):
        account.control.advance(-1)
