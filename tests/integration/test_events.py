"""The events of a cluster are what AWS has recorded about it, and about nothing else."""

from __future__ import annotations

import contextlib
import functools
import json
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.cluster_events import cloudtrail
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.timeline import cluster_events
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until
from permissions import operators

from .clusters import all_end, instances, numbers
from .conftest import ModuleFailed

__all__ = ["operators"]
# A c5.large in the price list of the local cloud
HOURLY = 0.1


@pytest.fixture
def events(cloud, run, name):
    """Read the events of the cluster."""
    cloud.control.set_delays(trail=0)
    return functools.partial(run, "cluster_events_info", cluster=name)


def actions(found, resource=""):
    return [each["action"] for each in found["events"] if not resource or resource in each["resources"]]


def event(found, action, resource):
    (one,) = (each for each in found["events"] if each["action"] == action and resource in each["resources"])
    return one


def shown(found, form="text", jobs=()):
    return cluster_events(found, jobs, "c-master", "", form)


def test_a_cluster_that_never_was_has_no_events(events):
    found = events()
    assert (found["events"], found["nodes"], found["problems"]) == ([], [], [])
    assert "AWS has recorded nothing about cluster" in shown(found)


def test_who_launched_changed_and_ended_nodes(cloud, run, definition, name, events, operators):
    operators.be("provision")
    run("cluster", **definition)
    operators.be("events")
    found = events()
    nodes = {each["instance_id"]: each for each in found["nodes"]}
    launched = numbers(cloud, name)
    assert nodes.keys() == launched.keys()
    for instance in launched:
        one = event(found, "launch", instance)
        assert (one["source"], one["hourly"], one["caller"]) == ("auto_scaling", HOURLY, "")
        assert "a user request created an AutoScalingGroup" in one["cause"] or "constraints to min" in one["cause"]
        assert (nodes[instance]["running"], nodes[instance]["ended_at"], nodes[instance]["instance_type"]) == (True, None, "c5.large")
    created = event(found, "CreateAutoScalingGroup", f"{name}-workers")
    assert created["caller"].endswith(f":user/{name}-provision")
    assert {"CreateVpc", "CreateNatGateway", "CreateFileSystem", "CreateSubnet", "AttachInternetGateway"} <= set(actions(found))
    victim = min(launched)
    cloud.client("ec2").terminate_instances(InstanceIds=[victim])
    wait_until(lambda: event(events(), "TerminateInstances", victim))
    found = events()
    ended = event(found, "TerminateInstances", victim)
    assert (ended["caller"].endswith(":root"), ended["hourly"], ended["error"]) == (True, -HOURLY, "")
    node = next(each for each in found["nodes"] if each["instance_id"] == victim)
    assert (node["running"], node["ended_at"]) == (False, ended["time"])
    text = shown(found)
    assert f"TerminateInstances {node['name']} ({victim}), by arn:aws:iam::123456789012:root, -0.100 USD per hour" in text
    assert "node-minutes and cost 0.0" in text
    # The collection ends nodes with a call of Auto Scaling
    operators.be("destroy")
    run("cluster", cluster=name, state="absent", delete_data=True)
    operators.be("events")
    after = events()
    assert event(after, "TerminateInstances", victim)["hourly"] == -HOURLY
    assert sum(each["hourly"] or 0 for each in after["events"]) == pytest.approx(0)
    assert {"DeleteAutoScalingGroup", "DeleteVpc", "DeleteNatGateway", "DeleteFileSystem"} <= set(actions(after))
    assert {each["instance_type"] for each in after["nodes"]} == {"c5.large"}
    assert not [each for each in after["nodes"] if each["running"] or each["ended_at"] is None]
    assert {each["name"] for each in after["nodes"]} == {f"{name}-master", f"{name}-worker2", f"{name}-worker3"}
    cloud.control.advance(2 * 3600)  # EC2 no longer describes the nodes
    assert {each["name"] for each in events()["nodes"]} == {each["name"] for each in after["nodes"]}
    json.loads(shown(after, "json"))


def test_what_belongs_to_others_is_not_shown(cloud, run, definition, name, events):
    run("cluster", **definition)
    before = events()
    ec2 = cloud.client("ec2")
    tags = [{"ResourceType": "vpc", "Tags": [{"Key": "deeplearning:cluster", "Value": f"{name}-2"}, {"Key": "Name", "Value": name}]}]
    vpc = ec2.create_vpc(CidrBlock="10.99.0.0/16", TagSpecifications=tags)["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.99.0.0/24", AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
    image = ec2.describe_instances()["Reservations"][0]["Instances"][0]["ImageId"]
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "deeplearning:cluster", "Value": name}]}]
    foreign = ec2.run_instances(ImageId=image, InstanceType="c5.large", SubnetId=subnet, MinCount=1, MaxCount=1, TagSpecifications=tags)[
        "Instances"
    ][0]["InstanceId"]
    ec2.terminate_instances(InstanceIds=[foreign])
    cloud.client("efs").create_file_system(CreationToken=name, Tags=[{"Key": "Name", "Value": name}])
    own = next(each for each in before["events"] if each["action"] == "CreateVpc")["resources"][0]
    for number, value in enumerate((f"{name}-workers", own, before["nodes"][0]["instance_id"])):
        tags = [{"ResourceType": "vpc", "Tags": [{"Key": "Name", "Value": value}]}]
        ec2.create_vpc(CidrBlock=f"10.{90 + number}.0.0/16", TagSpecifications=tags)
    cloud.client("iam").create_user(UserName=f"{name}-workers")  # found by the name of the group
    ec2.delete_subnet(SubnetId=ec2.create_subnet(VpcId=vpc, CidrBlock="10.99.1.0/24")["Subnet"]["SubnetId"])
    found = events()
    assert actions(found) == actions(before)
    assert foreign not in json.dumps(found)


def test_a_group_of_others_with_the_name_is_ignored(cloud, run, definition, name, events):
    run("cluster", **definition)
    assert actions(events(), f"{name}-workers")
    tag = {"ResourceId": f"{name}-workers", "ResourceType": "auto-scaling-group", "Key": "deeplearning:cluster"}
    cloud.client("autoscaling").create_or_update_tags(Tags=[{**tag, "Value": "other", "PropagateAtLaunch": False}])
    found = events()
    assert not actions(found, f"{name}-workers")
    assert {each["group"] for each in found["nodes"]} == {"master"}
    assert f"Auto Scaling group {name}-workers does not have the tag of this cluster" in shown(found)


def test_without_permission_only_the_callers_are_missing(cloud, run, definition, name, events, monkeypatch, operators):
    run("cluster", **definition)
    operators.be("configure")
    found = events()
    assert set(actions(found)) == {"launch"}
    assert [each["kind"] for each in found["problems"]] == ["denied"]
    assert "CloudTrail does not say who did what, because this is not allowed" in shown(found)
    operators.be("events")
    assert "CreateVpc" in actions(events())


def test_late_events_and_throttling(cloud, run, definition, name, events):
    run("cluster", **definition)
    cloud.control.set_delays(trail=900)
    assert set(actions(events())) == {"launch"}
    cloud.control.advance(900)
    cloud.control.set_delays(trail=0)
    cloud.control.limit_lookups(2)
    assert "CreateVpc" in actions(events())


def test_too_many_events_are_said(cloud, run, definition, name, events, monkeypatch):
    run("cluster", **definition)
    monkeypatch.setattr(cloudtrail, "PAGES", 1)
    groups = cloud.client("autoscaling")
    for count in range(60):
        groups.create_or_update_tags(Tags=[])
        groups.update_auto_scaling_group(AutoScalingGroupName=f"{name}-workers", DefaultCooldown=count)
    found = events()
    assert [each["message"] for each in found["problems"]] == [f"ResourceName {name}-workers"]
    assert f"CloudTrail has more events for ResourceName {name}-workers than are read. Before " in shown(found)


def test_calls_of_others_hide_no_end_of_a_node(cloud, run, definition, name, events, operators):
    """EC2 forgets an ended node after an hour. Nothing but the history then tells its type and name, and who has ended it."""
    run("cluster", **definition)
    cloud.control.advance(3600)
    ec2, victim = cloud.client("ec2"), min(numbers(cloud, name))
    operators.be("configure")
    denied = boto3.client("ec2", region_name="us-east-1")
    ec2.terminate_instances(InstanceIds=[victim])
    cloud.control.advance(300)
    for instance in ["i-00000000000000001"] * 1100 + [victim] * 30:
        with contextlib.suppress(ClientError):
            denied.terminate_instances(InstanceIds=[instance])
    operators.be("events")
    for hours in (0, 2):
        cloud.control.advance(hours * 3600)
        found = events()
        (ended,) = (each for each in found["events"] if each["action"] == "TerminateInstances" and not each["error"])
        (node,) = (each for each in found["nodes"] if each["instance_id"] == victim)
        assert (ended["caller"][-5:], node["ended_at"]) == (":root", ended["time"])
        lines = [line for line in shown(found).splitlines() if f"{victim}) failed (Client.UnauthorizedOperation)" in line]
        assert (len(lines), "This caller made 10 more refused calls until " in lines[-1]) == (20, True)


def test_a_shortage_is_one_line_and_costs_nothing(cloud, run, definition, name, events):
    cloud.control.set_delays(launch_retry=0, trail=0)
    run("cluster", **{**definition, "worker_count": 1})
    cloud.control.set_capacity({"c5.large": {f"us-east-1{zone}": 0 for zone in "abc"}})
    with pytest.raises(ModuleFailed, match=r"1 of 2 nodes of .*-workers are in service"):
        run("cluster", **{**definition, "worker_count": 2, "capacity_timeout": 2})
    found = events()
    failed = [each for each in found["events"] if each["action"] == "failed_launch"]
    assert len(failed) > 2
    assert {each["hourly"] for each in failed} == {None}
    lines = [line for line in shown(found).splitlines() if "could not be launched" in line]
    assert len(lines) <= 3, lines
    assert "times until" in "".join(lines)
    assert "InsufficientInstanceCapacity" in "".join(lines)


def test_an_interruption_is_told(cloud, run, definition, name, events):
    run("cluster", **{**definition, "market": "spot", "instance_type": "g5.xlarge"})
    victim = next(instance for instance, number in numbers(cloud, name).items() if number == 2)
    cloud.control.interrupt(victim)
    found = events()
    one = event(found, "BidEvictedEvent", victim)
    assert (one["caller"], one["hourly"] < 0) == ("ec2.amazonaws.com", True)


def test_a_stopped_node_costs_nothing(cloud, run, definition, name, events):
    run("cluster", **definition)
    victim = min(numbers(cloud, name))
    cloud.client("ec2").stop_instances(InstanceIds=[victim])
    found = events()
    stopped = event(found, "StopInstances", victim)
    assert (stopped["hourly"], stopped["caller"][-5:]) == (-HOURLY, ":root")
    node = next(each for each in found["nodes"] if each["instance_id"] == victim)
    assert (node["running"], node["ended_at"]) == (False, stopped["time"])


def test_the_time_to_look_back(cloud, run, definition, name, events, monkeypatch):
    with pytest.raises(
        ModuleFailed,
        match=r"since: 'yesterday' is not a time span\. .* such as 12h or 7d, in deeplearning_events_since",
    ):
        events(since="yesterday")
    cloud.control.set_delays(clock_lag=10 * 24 * 3600, trail=0)
    run("cluster", **definition)
    victim = sorted(numbers(cloud, name))[0]
    cloud.control.set_delays(clock_lag=0)
    assert events()["events"] == []
    assert {each["launched_at"] is None for each in events()["nodes"]} == {False}
    cloud.client("ec2").terminate_instances(InstanceIds=[victim])
    found = wait_until(lambda: (read := events())["events"] and read)
    assert actions(found) == ["TerminateInstances"]
    assert "launch" in actions(events(since="2w"))
    began = datetime.fromtimestamp(found["since"], UTC)
    assert datetime.now(UTC) - began - timedelta(days=7) < timedelta(minutes=5)


def test_the_lease_and_what_it_has_ended_are_told(cloud, run, definition, name, events, operators):
    leased, minute = {**definition, "lease": "1h"}, 60
    operators.be("provision")
    run("cluster", **leased)
    cloud.control.advance(45 * minute)
    run("cluster", **leased)  # prolongs the lease
    cloud.control.advance(61 * minute)
    assert all_end(cloud, name)
    operators.be("destroy")
    run("cluster", cluster=name, state="absent", delete_data=True)
    operators.be("events")
    found = events()
    told = [each for each in found["events"] if f"{name}-nodes-lease/workers" in each["resources"]]
    assert [each["action"] for each in told] == ["CreateSchedule", "UpdateSchedule", "DeleteSchedule"]
    assert [each["caller"].rpartition("-")[2] for each in told] == ["provision", "provision", "destroy"]
    for resource in (f"{name}-master", f"{name}-workers"):
        deletion = event(found, "DeleteAutoScalingGroup", resource)
        assert (deletion["ended_by"], f"/{name}-nodes-lease-us-east-1/" in deletion["caller"]) == ("lease", True)
    ended = [each for each in found["events"] if each["action"] == "termination"]
    assert [each["ended_by"] for each in ended] == ["lease"] * 3
    hours = [(each["ended_at"] - each["launched_at"]) / 3600 for each in found["nodes"]]
    assert hours == [pytest.approx(1.75, abs=0.1)] * 3
    text = shown(found)
    assert text.count("AWS ended the nodes: their lease had ended") == 5
    assert "The lease of the nodes was set and ends at " in text
    assert [each["until"] is None for each in told] == [False, False, True]
    assert "node-hours and cost 0.5" in text


def test_the_end_of_idle_nodes_is_told(cloud, run, definition, name, events):
    run("cluster", **definition, idle_after="15m")
    for _ in range(2):
        now = datetime.fromtimestamp(cloud.control.advance(0), UTC)
        for instance in instances(cloud, name):
            text = f"deeplearning: idle since {now - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}, reported at {now:%Y-%m-%dT%H:%M:%SZ}."
            cloud.control.print_on_console(instance, f"\r\n{text}\r\n")
        cloud.control.advance(600)
    assert all_end(cloud, name)
    run("cluster", cluster=name, state="absent", delete_data=True)
    found = events()
    assert actions(found, f"{name}-nodes-idle/check") == ["CreateSchedule", "DeleteSchedule"]
    ended = [each["ended_by"] for each in found["events"] if each["action"] in ("DeleteAutoScalingGroup", "termination")]
    assert ended == ["idle"] * 5
    assert "The end of idle nodes was removed" in shown(found)


def test_a_running_node_costs_something_whatever_the_controllers_clock_shows(cloud, run, definition, name, events):
    cloud.control.advance(5 * 3600)
    run("cluster", **definition)
    cloud.control.advance(3600)
    found = events(since="2h")
    assert {each["running"] for each in found["nodes"]} == {True}
    assert "3 nodes ran for 3.0 node-hours and cost 0.30" in shown(found)


def test_a_folder_of_the_file_that_does_not_exist_is_told_before_anything_is_read(cloud, playbook):
    cloud.control.forget_calls()
    succeeds, told = playbook("events", "-e", "deeplearning_events_file=/nonexistent/x.csv")
    assert not succeeds
    assert "deeplearning_events_file: the folder of '/nonexistent/x.csv' does not exist. Create it, or specify a file in" in told
    assert "LookupEvents" not in {call["action"] for call in cloud.control.calls()}
