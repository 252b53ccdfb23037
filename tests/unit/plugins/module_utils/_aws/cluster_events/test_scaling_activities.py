"""Tests of the events and lives of nodes. The texts of activities are those of AWS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.cluster_events import scaling_activities
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.cluster_events.scaling_activities import Event, LifeOfNode

START = datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)
A, B = "i-0123456789abcdef0", "i-0fedcba9876543210"


def activity(description, status="Successful", minutes=0, **more):
    return {"Description": description, "StatusCode": status, "StartTime": START + timedelta(minutes=minutes), "Cause": "", **more}


def instance(name, state="running", reason="", lifecycle=None):
    more = {"InstanceLifecycle": lifecycle} if lifecycle else {}
    place = {"InstanceType": "g5.xlarge", "Placement": {"AvailabilityZone": "us-east-1a"}, "LaunchTime": START}
    return {"InstanceId": name, "State": {"Name": state}, "StateTransitionReason": reason, **place, **more}


@pytest.mark.parametrize(
    ("one", "action", "names", "cause"),
    [
        (activity(f"Launching a new EC2 instance: {A}", Cause="At ..."), "launch", [A], "At ..."),
        (activity(f"Launching a new EC2 instance: {A}", "InProgress"), "launch", [A], ""),
        (activity(f"Terminating EC2 instance: {A} - Draining ELB connection.", Cause="At ..."), "termination", [A], "At ..."),
        (activity(f"Detaching EC2 instance: {A}"), "detachment", [A], ""),
        (
            activity("Launching a new EC2 instance.  Status Reason: No capacity.", "Failed", StatusMessage="No capacity."),
            "failed_launch",
            [],
            "No capacity.",
        ),
        (activity(f"Launching a new EC2 instance: {A}", "Cancelled", StatusMessage="Unhealthy."), "failed_launch", [A], "Unhealthy."),
    ],
)
def test_an_activity(one, action, names, cause):
    (event,) = scaling_activities.events_of("workers", [one])
    assert event == Event(START.timestamp(), "auto_scaling", action, names, "workers", cause=cause)


@pytest.mark.parametrize(
    "one",
    [
        activity(f"Terminating EC2 instance: {A}", "Cancelled"),
        activity("Moving EC2 instance out of Standby"),
        activity("Updating load balancers/target groups: Successful. Status Reason: Added"),
    ],
)
def test_other_activities_are_no_events(one):
    assert list(scaling_activities.events_of("workers", [one])) == []


def test_the_end_that_only_ec2_tells():
    ended = instance(A, "terminated", "User initiated (2026-09-21 14:20:00 GMT)")
    ended["StateReason"] = {"Message": "Client.UserInitiatedShutdown: User initiated shutdown"}
    (event,) = scaling_activities.ends_of([("workers", ended), ("workers", instance(B))], ())
    assert (event.resources, event.cause) == ([A], "Client.UserInitiatedShutdown: User initiated shutdown")
    assert (event.time, event.source) == ((START + timedelta(seconds=400)).timestamp(), "ec2")
    (stop,) = scaling_activities.ends_of([("workers", instance(A, "stopped", "User initiated (2026-09-21 14:20:00 GMT)"))], ())
    assert (stop.ends_nodes, stop) == (True, Event(event.time, "ec2", "stop", [A], "workers"))
    assert scaling_activities.nodes_of("c", (), [("workers", instance(A, "stopped"))])[A].cause == ""
    assert list(scaling_activities.ends_of([("workers", ended)], [Event(1.0, "cloudtrail", "TerminateInstances", [A])])) == []
    failed = Event(1.0, "cloudtrail", "TerminateInstances", [A], error="Client.UnauthorizedOperation")
    assert list(scaling_activities.ends_of([("workers", ended)], [failed])) == [event]
    lost = {**instance(A, "terminated", "Server.InternalError"), "StateReason": {"Message": "Server.InternalError: Internal error"}}
    assert list(scaling_activities.ends_of([("workers", lost)], ())) == []
    life = scaling_activities.nodes_of("c", (), [("workers", lost)])[A]
    assert (life.running, life.ended_at, life.cause) == (False, None, "Server.InternalError: Internal error")


def test_nodes_and_their_lives():
    launch = Event(START.timestamp() - 60, "auto_scaling", "launch", [A], "workers")
    end = Event(START.timestamp() + 60, "auto_scaling", "termination", [A], "workers")
    nodes = scaling_activities.nodes_of(
        "c", [launch, end], [("master", {**instance(B, lifecycle="spot"), "StateReason": {"Message": "It was stopped before."}})]
    )
    scaling_activities.set_ends(nodes, [launch, Event(START.timestamp() + 30, "cloudtrail", "TerminateInstances", [A, "i-00000001"]), end])
    assert nodes[A] == LifeOfNode(A, "workers", launched_at=launch.time, ended_at=START.timestamp() + 30)
    assert nodes[B] == LifeOfNode(B, "master", "c-master", "g5.xlarge", "spot", "us-east-1a", START.timestamp(), running=True)
    assert list(nodes) == [A, B]


@pytest.mark.parametrize(
    ("group", "number", "name"),
    [("workers", "12", "c-worker12"), ("workers", "2; x", ""), ("workers", None, ""), ("master", None, "c-master")],
)
def test_the_name_of_a_node(group, number, name):
    tags = [{"Key": "deeplearning:number", "Value": number}] if number else []
    nodes = scaling_activities.nodes_of("c", [Event(0, "auto_scaling", "launch", [A], group)], [(group, {**instance(A), "Tags": tags})])
    assert nodes[A].name == name


def test_an_instance_that_failed_while_pending_is_no_node():
    failed = Event(0, "auto_scaling", "failed_launch", [A], "workers")
    assert scaling_activities.nodes_of("c", [failed, Event(1, "auto_scaling", "termination", [A], "workers")], ()) == {}


def test_each_node_changes_the_price_twice():
    nodes = {name: LifeOfNode(name, "workers", hourly=price) for name, price in ((A, 2.0), (B, None))}
    events = [
        Event(0, "auto_scaling", "launch", [A]),
        Event(0, "auto_scaling", "launch", [B]),
        Event(1, "cloudtrail", "TerminateInstances", [A], error="AccessDenied"),
        Event(2, "cloudtrail", "TerminateInstanceInAutoScalingGroup", [A, B]),
        Event(2, "auto_scaling", "termination", [A]),
        Event(3, "cloudtrail", "UpdateAutoScalingGroup", ["c-workers"]),
    ]
    scaling_activities.set_differences(events, nodes)
    assert [event.hourly for event in events] == [2.0, None, None, -2.0, None, None]


def test_terminations_after_the_deletion_of_the_group_have_its_cause():
    groups = {"c-master": "master", "c-workers": "workers"}
    events = [
        Event(0, "auto_scaling", "termination", [A], "workers"),
        Event(1, "cloudtrail", "DeleteAutoScalingGroup", ["c-workers"], ended_by="lease"),
        Event(2, "auto_scaling", "termination", [A], "workers"),
        Event(2, "auto_scaling", "termination", [B], "master"),
        Event(3, "cloudtrail", "DeleteAutoScalingGroup", ["c-workers"], error="AccessDenied"),
        Event(4, "ec2", "termination", [A], "workers"),
        Event(5, "cloudtrail", "CreateAutoScalingGroup", ["c-workers"]),
        Event(6, "auto_scaling", "termination", [A], "workers"),
    ]
    scaling_activities.set_causes(events, groups)
    assert [event.ended_by for event in events if event.action == "termination"] == ["", "lease", "", "lease", ""]
