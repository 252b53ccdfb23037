"""Auto Scaling groups launch, replace, and terminate instances, and record activities."""

from __future__ import annotations

import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from botocore.exceptions import ClientError
from local_cloud.aws.app import AwsApi
from local_cloud.aws.context import CLOUD
from local_cloud.testing import wait_until

from ..conftest import Account, Hosts, refused


def code(caught: pytest.ExceptionInfo[ClientError]) -> str:
    return str(caught.value.response["Error"]["Code"])


def in_service(account: Account, group: str, count: int) -> list[str]:
    wait_until(lambda: len(account.members(group)) == count)
    return account.members(group)


def test_pending_then_in_service_spread_over_zones(account: Account, hosts: Hosts) -> None:
    hosts.boots.clear()
    group = account.group(4, account.subnets("abc"))
    wait_until(lambda: len(account.members(group, "Pending")) == 4)
    assert {each["StatusCode"] for each in account.activities(group)} == {"InProgress"}
    hosts.boots.set()
    in_service(account, group, 4)
    described = account.described(group)
    assert described is not None
    zones = Counter(each["AvailabilityZone"] for each in described["Instances"])
    assert sorted(zones.values()) == [1, 1, 2]
    assert {each["HealthStatus"] for each in described["Instances"]} == {"Healthy"}
    assert {each["InstanceType"] for each in described["Instances"]} == {"p4d.24xlarge"}
    activity = account.activities(group)[0]
    assert activity["StatusCode"] == "Successful"
    assert activity["EndTime"] >= activity["StartTime"]
    assert activity["Description"].startswith("Launching a new EC2 instance: i-")


def test_tags_of_the_group_reach_its_instances(account: Account) -> None:
    tags = [
        {"Key": "deeplearning:cluster", "Value": "one", "PropagateAtLaunch": True},
        {"Key": "note", "Value": "stays", "PropagateAtLaunch": False},
    ]
    group = account.group(1, Tags=tags)
    identifier = in_service(account, group, 1)[0]
    found = {each["Key"]: each["Value"] for each in account.instance(identifier)["Tags"]}
    assert found["deeplearning:cluster"] == "one"
    assert found["aws:autoscaling:groupName"] == group
    assert "note" not in found


def test_no_capacity(account: Account, cloud: AwsApi) -> None:
    cloud.capacity.update({"p4d.24xlarge": {"us-east-1a": 0, "us-east-1b": 0}})
    group = account.group(2)
    activity = wait_until(lambda: account.activities(group))[-1]
    assert activity["StatusCode"] == "Failed"
    assert activity["StatusMessage"].startswith("Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently")
    assert activity["Description"].startswith("Launching a new EC2 instance.  Status Reason: Could not launch")
    assert account.members(group) == []
    cloud.restore()
    in_service(account, group, 2)


def test_a_full_zone_is_passed_over(account: Account, cloud: AwsApi) -> None:
    cloud.capacity.update({"p4d.24xlarge": {"us-east-1a": 0}})
    group = account.group(3)
    identifiers = in_service(account, group, 3)
    assert {account.instance(each)["Placement"]["AvailabilityZone"] for each in identifiers} == {"us-east-1b"}
    with pytest.raises(ClientError) as caught:
        account.run(account.subnets("a")[0], InstanceType="p4d.24xlarge")
    assert code(caught) == "InsufficientInstanceCapacity"


def test_activities_come_newest_first_and_in_pages(account: Account) -> None:
    group = account.group(3)
    in_service(account, group, 3)
    first = account.groups.describe_scaling_activities(AutoScalingGroupName=group, MaxRecords=2)
    rest = account.groups.describe_scaling_activities(AutoScalingGroupName=group, MaxRecords=2, NextToken=first["NextToken"])
    both = first["Activities"] + rest["Activities"]
    assert len(both) == 3
    assert "NextToken" not in rest
    assert [each["StartTime"] for each in both] == sorted((each["StartTime"] for each in both), reverse=True)
    one = account.groups.describe_scaling_activities(AutoScalingGroupName=group, ActivityIds=[both[1]["ActivityId"]])
    assert one["Activities"] == [both[1]]


def test_activities_are_filtered_by_status_and_start(account: Account) -> None:
    group = account.group(1)
    in_service(account, group, 1)

    def ids(**filters: str | datetime) -> list[str]:
        given = [{"Name": name, "Values": [f"{value}"]} for name, value in filters.items()]
        found = account.groups.describe_scaling_activities(AutoScalingGroupName=group, Filters=given)["Activities"]
        return [each["ActivityId"] for each in found]

    (launch,) = account.activities(group)
    before, after = (launch["StartTime"] + timedelta(seconds=seconds) for seconds in (-1, 1))
    assert ids(Status="Failed") == ids(StartTimeLowerBound=after) == ids(StartTimeUpperBound=before) == []
    assert ids(Status="Successful", StartTimeLowerBound=before, StartTimeUpperBound=after) == [launch["ActivityId"]]
    refused(lambda: ids(StartTimeLowerBound="yesterday"), "ValidationError", "ISO 8601")
    refused(lambda: ids(Cause="x"), "ValidationError")
    for_all = [{"Name": "Status", "Values": ["Failed"]}]
    refused(lambda: account.groups.describe_scaling_activities(Filters=for_all), "ValidationError", "AutoScalingGroupName")


def test_a_launch_that_fails_is_tried_again(account: Account, hosts: Hosts) -> None:
    hosts.failure = "no memory left"
    group = account.group(1)
    activity = wait_until(lambda: [each for each in account.activities(group) if each["StatusCode"] == "Cancelled"])[0]
    assert "no memory left" in activity["StatusMessage"]
    hosts.failure = ""
    in_service(account, group, 1)


def test_an_instance_that_dies_while_pending_is_replaced(account: Account, hosts: Hosts) -> None:
    control = account.control
    control.fail_launches({"p4d.24xlarge": 1})
    group = account.group(1)
    hosts.boots.clear()
    activity = wait_until(lambda: [each for each in account.activities(group) if each["StatusCode"] == "Cancelled"])[0]
    reason = "Termination Reason: Server.InternalError: Internal error on launch"
    assert activity["StatusMessage"].startswith("Instance became unhealthy while waiting for instance to be in InService state. ")
    assert activity["StatusMessage"].endswith(reason)
    second = wait_until(lambda: account.members(group, "Pending"))[0]
    control.kill(second)
    wait_until(lambda: len([each for each in account.activities(group) if reason in each.get("StatusMessage", "")]) == 2)
    hosts.boots.set()
    third = in_service(account, group, 1)[0]
    control.kill(third)
    wait_until(lambda: account.members(group) not in ([], [third]))
    assert account.instance(third)["StateReason"]["Code"] == "Server.InternalError"


def test_a_replaced_instance_is_launched_from_the_latest_version(account: Account) -> None:
    template = account.template()
    group = account.group(2, template=template)
    first, second = in_service(account, group, 2)
    account.ec2.create_launch_template_version(
        LaunchTemplateName=template, SourceVersion="1", LaunchTemplateData={"InstanceType": "m5.large"}
    )
    account.groups.terminate_instance_in_auto_scaling_group(InstanceId=first, ShouldDecrementDesiredCapacity=False)
    wait_until(lambda: first not in str(account.described(group)))
    in_service(account, group, 2)
    found = {each["InstanceId"]: each for each in (account.described(group) or {})["Instances"]}
    assert found.pop(second)["LaunchTemplate"]["Version"] == "1"
    (new,) = found.values()
    assert (new["LaunchTemplate"]["Version"], new["InstanceType"]) == ("2", "m5.large")


def test_instances_of_a_deleted_template_and_terminating_instances_have_no_template(
    account: Account, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_template(group: str) -> list[bool]:
        return ["LaunchTemplate" in each for each in (account.described(group) or {})["Instances"]]

    template = account.template()
    group, other = account.group(1, template=template), account.group(1)
    in_service(account, group, 1)
    (victim,) = in_service(account, other, 1)
    assert has_template(group) == has_template(other) == [True]
    account.ec2.delete_launch_template(LaunchTemplateName=template)
    assert has_template(group) == [False]

    gone = threading.Event()
    monkeypatch.setattr(hosts, "remove", lambda identifier: gone.wait(60))
    account.groups.terminate_instance_in_auto_scaling_group(InstanceId=victim, ShouldDecrementDesiredCapacity=True)
    found = has_template(other)
    gone.set()
    assert found == [False]


def test_what_is_lost_is_replaced(account: Account, hosts: Hosts) -> None:
    group = account.group(2)
    lost, kept = in_service(account, group, 2)
    hosts.alive.discard(lost)
    wait_until(lambda: lost not in account.members(group) and len(account.members(group)) == 2)
    assert kept in account.members(group)
    assert any("EC2 health check" in each["Cause"] for each in account.activities(group))


@pytest.mark.parametrize("how", ["terminated", "stopped", "unhealthy"])
def test_what_is_ended_by_others_is_replaced(account: Account, how: str) -> None:
    group = account.group(1)
    victim = in_service(account, group, 1)[0]
    if how == "terminated":
        account.ec2.terminate_instances(InstanceIds=[victim])
    elif how == "stopped":
        account.ec2.stop_instances(InstanceIds=[victim])
    else:
        account.groups.set_instance_health(InstanceId=victim, HealthStatus="Unhealthy")
    wait_until(lambda: account.members(group) not in ([], [victim]))
    wait_until(lambda: account.state(victim) == "terminated")
    assert len(account.members(group)) == 1


def test_a_group_notices_late_that_an_instance_has_ended(account: Account) -> None:
    CLOUD.delays = CLOUD.delays.changed({"group_health_check": 3600})
    group = account.group(1)
    victim = in_service(account, group, 1)[0]
    account.ec2.terminate_instances(InstanceIds=[victim])
    wait_until(lambda: account.state(victim) == "terminated")
    assert account.members(group) == [victim]
    CLOUD.delays = CLOUD.delays.changed({"group_health_check": 0})
    wait_until(lambda: account.members(group) not in ([], [victim]))


def test_suspended_processes(account: Account, hosts: Hosts) -> None:
    group = account.group(2)
    victim = in_service(account, group, 2)[0]
    account.groups.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch", "ReplaceUnhealthy"])
    hosts.alive.discard(victim)
    described = wait_until(lambda: (account.described(group) or {}) if "Unhealthy" in str(account.described(group)) else None)
    assert len(described["Instances"]) == 2
    account.groups.resume_processes(AutoScalingGroupName=group, ScalingProcesses=["ReplaceUnhealthy"])
    wait_until(lambda: len((account.described(group) or {})["Instances"]) == 1)
    account.groups.resume_processes(AutoScalingGroupName=group)
    in_service(account, group, 2)


def test_a_suspension_says_who_it_is_of(account: Account) -> None:
    group = account.group(0)
    for _ in range(2):
        account.groups.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])
    (process,) = (account.described(group) or {})["SuspendedProcesses"]
    assert process["ProcessName"] == "Launch"
    account.control.suspend(group, "Terminate")
    reasons = {each["ProcessName"]: each["SuspensionReason"] for each in (account.described(group) or {})["SuspendedProcesses"]}
    assert reasons["Terminate"].startswith("Administrative suspension")
    assert re.fullmatch(r"User suspended at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", process["SuspensionReason"])


def test_health_is_not_judged_within_the_grace_period(account: Account) -> None:
    group = account.group(1, HealthCheckGracePeriod=600)
    account.groups.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["ReplaceUnhealthy"])
    member = in_service(account, group, 1)[0]

    def health(status: str, **more: bool) -> str:
        account.groups.set_instance_health(InstanceId=member, HealthStatus=status, **more)
        return str((account.described(group) or {})["Instances"][0]["HealthStatus"])

    assert health("Unhealthy") == "Healthy"
    assert health("Unhealthy", ShouldRespectGracePeriod=False) == "Unhealthy"
    assert health("Healthy") == "Healthy"


def test_set_desired_capacity_is_atomic(account: Account) -> None:
    group = account.group(0)
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda _: account.groups.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=12, HonorCooldown=False),
                range(8),
            )
        )
    in_service(account, group, 12)
    assert len(account.activities(group)) == 12


def test_scale_in_keeps_zones_balanced_and_respects_protection(account: Account) -> None:
    group = account.group(5)
    identifiers = in_service(account, group, 5)
    zones = {each: account.instance(each)["Placement"]["AvailabilityZone"] for each in identifiers}
    crowded = Counter(zones.values()).most_common(1)[0][0]
    protected = next(each for each in identifiers if zones[each] == crowded)
    account.groups.set_instance_protection(AutoScalingGroupName=group, InstanceIds=[protected], ProtectedFromScaleIn=True)
    account.groups.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=2)
    kept = in_service(account, group, 2)
    assert protected in kept
    assert len({zones[each] for each in kept}) == 2
    wait_until(lambda: account.members(group, "Terminating") == [])
    assert any("shrinking the capacity from 5 to 4" in each["Cause"] for each in account.activities(group))


def test_scale_in_protection_starts_in_service(account: Account, hosts: Hosts) -> None:
    group = account.group(1, NewInstancesProtectedFromScaleIn=True)
    (protected,) = in_service(account, group, 1)
    hosts.boots.clear()
    account.groups.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=2)
    (pending,) = wait_until(lambda: account.members(group, "Pending"))
    account.groups.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=0)
    wait_until(lambda: pending not in str(account.described(group)))
    assert account.members(group) == [protected]
    hosts.boots.set()


@pytest.mark.parametrize("decrement", [False, True])
def test_terminate_one_instance(account: Account, decrement: bool) -> None:
    group = account.group(2)
    victim = in_service(account, group, 2)[0]
    activity = account.groups.terminate_instance_in_auto_scaling_group(InstanceId=victim, ShouldDecrementDesiredCapacity=decrement)[
        "Activity"
    ]
    assert activity["Description"] == f"Terminating EC2 instance: {victim}"
    assert ("shrinking the capacity from 2 to 1" in activity["Cause"]) is decrement
    wait_until(lambda: victim not in str(account.described(group)))
    in_service(account, group, 1 if decrement else 2)
    described = account.described(group)
    assert described is not None
    assert described["DesiredCapacity"] == (1 if decrement else 2)


def test_terminate_below_the_minimum_is_refused(account: Account) -> None:
    group = account.group(1, MinSize=1)
    victim = in_service(account, group, 1)[0]
    with pytest.raises(ClientError, match="desiredSize equals minSize") as caught:
        account.groups.terminate_instance_in_auto_scaling_group(InstanceId=victim, ShouldDecrementDesiredCapacity=True)
    assert code(caught) == "ValidationError"


def test_delete(account: Account, hosts: Hosts) -> None:
    group = account.group(1)
    victim = in_service(account, group, 1)[0]
    with pytest.raises(ClientError) as caught:
        account.groups.delete_auto_scaling_group(AutoScalingGroupName=group)
    assert code(caught) == "ResourceInUse"
    account.groups.delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)
    wait_until(lambda: account.described(group) is None)
    assert account.state(victim) == "terminated"
    with pytest.raises(ClientError) as caught:
        account.groups.delete_auto_scaling_group(AutoScalingGroupName=group)
    assert code(caught) == "ValidationError"


def test_a_group_being_deleted_stays_visible(account: Account, hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    group = account.group(1)
    in_service(account, group, 1)
    gone = threading.Event()
    monkeypatch.setattr(hosts, "remove", lambda identifier: gone.wait(60))
    account.groups.delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)
    described = account.described(group)
    gone.set()
    assert described is not None
    assert described["Status"] == "Delete in progress"
    assert [each["LifecycleState"] for each in described["Instances"]] == ["Terminating"]
    wait_until(lambda: account.described(group) is None)


def test_the_instances_of_a_deleted_group_can_run_for_a_while(account: Account, hosts: Hosts) -> None:
    account.control.set_delays(group_deletion=300)
    group = account.group(1)
    victim = in_service(account, group, 1)[0]
    for _ in range(2):  # a second deletion does not prolong the wait
        account.groups.delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)
        assert account.state(victim) == "running"
        account.control.advance(155)
    wait_until(lambda: account.described(group) is None)
    assert account.state(victim) == "terminated"


def test_an_empty_group_is_deleted_at_once(account: Account) -> None:
    group = account.group(0)
    account.groups.delete_auto_scaling_group(AutoScalingGroupName=group)
    assert account.described(group) is None


def test_groups_work_in_other_regions(elsewhere: Account) -> None:
    group = elsewhere.group(1, template=elsewhere.template(InstanceType="g5.xlarge"))
    identifier = in_service(elsewhere, group, 1)[0]
    assert elsewhere.instance(identifier)["Placement"]["AvailabilityZone"].startswith("eu-west-1")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"VPCZoneIdentifier": "subnet-00000000000000000"}, "The subnet ID 'subnet-00000000000000000' does not exist"),
        ({"LaunchTemplate": {"LaunchTemplateId": "lt-00000000000000000"}}, "template ID lt-00000000000000000, does not exist"),
        ({"LaunchTemplate": {"LaunchTemplateName": "no-such"}}, "template name no-such, does not exist"),
        ({"MinSize": 3, "MaxSize": 2}, "Max bound, 2, must be greater than or equal to min bound, 3"),
        ({"DesiredCapacity": 30}, "Desired capacity:30 must be between the specified min size:0 and max size:20"),
    ],
)
def test_create_refuses(account: Account, extra: dict[str, object], message: str) -> None:
    with pytest.raises(ClientError, match=message) as caught:
        account.group(0, **extra)
    assert code(caught) == "ValidationError"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"IamInstanceProfile": {"Name": "no-such"}}, "Value .no-such. for parameter iamInstanceProfile.name is invalid"),
        ({"KeyName": "no-such"}, "The key pair 'no-such' does not exist"),
        ({"ImageId": "ami-00000000000000000"}, "The image id .* does not exist"),
        ({"SecurityGroupIds": ["sg-00000000000000000"]}, "The security group 'sg-00000000000000000' does not exist"),
    ],
)
def test_create_refuses_a_template_from_which_nothing_can_be_launched(account: Account, data: dict[str, object], message: str) -> None:
    with pytest.raises(ClientError, match="You must use a valid fully-formed launch template. " + message) as caught:
        account.group(0, template=account.template(**data))
    assert code(caught) == "ValidationError"


def test_a_change_of_size_is_accepted_after_the_key_pair_was_deleted(account: Account) -> None:
    account.ec2.create_key_pair(KeyName="short-lived")
    template = account.template(KeyName="short-lived")
    group = account.group(2, template=template)
    in_service(account, group, 2)
    account.ec2.delete_key_pair(KeyName="short-lived")
    account.groups.update_auto_scaling_group(AutoScalingGroupName=group, MinSize=1, DesiredCapacity=1)
    in_service(account, group, 1)
    with pytest.raises(ClientError, match="The key pair 'short-lived' does not exist"):
        account.groups.update_auto_scaling_group(AutoScalingGroupName=group, LaunchTemplate={"LaunchTemplateName": template})
    account.groups.update_auto_scaling_group(AutoScalingGroupName=group, DesiredCapacity=2)
    wait_until(lambda: "The key pair 'short-lived' does not exist" in account.activities(group)[0].get("StatusMessage", ""))


def test_unknown_groups_and_instances(account: Account) -> None:
    calls = [
        lambda: account.groups.set_desired_capacity(AutoScalingGroupName="no-such", DesiredCapacity=1),
        lambda: account.groups.update_auto_scaling_group(AutoScalingGroupName="no-such", MinSize=1),
        lambda: account.groups.describe_scaling_activities(AutoScalingGroupName="no-such"),
        lambda: account.groups.suspend_processes(AutoScalingGroupName="no-such"),
        lambda: account.groups.set_instance_health(InstanceId="i-00000000000000000", HealthStatus="Unhealthy"),
        lambda: account.groups.create_or_update_tags(
            Tags=[{"ResourceId": "no-such", "ResourceType": "auto-scaling-group", "Key": "a", "Value": "b"}]
        ),
    ]
    for call in calls:
        with pytest.raises(ClientError) as caught:
            call()
        assert code(caught) == "ValidationError"


def test_a_name_is_taken_once(account: Account) -> None:
    group = account.group(0)
    with pytest.raises(ClientError) as caught:
        account.group(0, AutoScalingGroupName=group)
    assert code(caught) == "AlreadyExists"


def test_update(account: Account) -> None:
    group = account.group(1)
    in_service(account, group, 1)
    account.groups.update_auto_scaling_group(
        AutoScalingGroupName=group, MinSize=2, TerminationPolicies=["NewestInstance"], HealthCheckGracePeriod=60
    )
    in_service(account, group, 2)
    described = account.described(group)
    assert described is not None
    assert (described["DesiredCapacity"], described["TerminationPolicies"]) == (2, ["NewestInstance"])
    assert described["LaunchTemplate"]["Version"] == "$Latest"
    with pytest.raises(ClientError, match="Desired capacity:9 must be between"):
        account.groups.update_auto_scaling_group(AutoScalingGroupName=group, MaxSize=4, DesiredCapacity=9)
    for desired, side in ((21, "above max value 20"), (1, "below min value 2")):
        with pytest.raises(ClientError, match=side):
            account.groups.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=desired)


def test_metrics(account: Account) -> None:
    group = account.group(0)
    account.groups.enable_metrics_collection(AutoScalingGroupName=group, Granularity="1Minute", Metrics=["GroupMinSize"])
    account.groups.disable_metrics_collection(AutoScalingGroupName=group)
    assert (account.described(group) or {})["EnabledMetrics"] == []


@pytest.mark.parametrize(
    ("protection", "force", "deleted"),
    [
        ("none", True, True),
        ("prevent-force-deletion", True, False),
        ("prevent-force-deletion", False, True),
        ("prevent-all-deletion", True, False),
        ("prevent-all-deletion", False, False),
    ],
)
def test_deletion_protection(account: Account, protection: str, force: bool, deleted: bool) -> None:
    group = account.group(0, DeletionProtection=protection)
    described = account.described(group)
    assert described is not None
    assert described["DeletionProtection"] == protection

    def delete() -> None:
        account.groups.delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=force)

    if not deleted:
        refused(delete, "ValidationError", protection)
        account.groups.update_auto_scaling_group(AutoScalingGroupName=group, MaxSize=1)
        refused(delete, "ValidationError", protection)
        account.groups.update_auto_scaling_group(AutoScalingGroupName=group, DeletionProtection="none")
    delete()
    assert account.described(group) is None
