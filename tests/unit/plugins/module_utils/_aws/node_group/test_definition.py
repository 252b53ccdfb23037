# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Numbers stay with their instances, host keys come from the console, reasons come in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import groups
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.activities import Launches, explain
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.console import host_keys
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.definition import assign_numbers, numbers
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.inventory import nodes
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.members import leaving
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.membership import MembershipError, problems

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONSOLE = """[   11.2] cloud-init[500]: -----BEGIN SSH HOST KEY KEYS-----
ecdsa-sha2-nistp256 AAAAE2VjZHNh root@ip-10-0-0-4
[   11.3] cloud-init[500]: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA root@ip-10-0-0-4
-----END SSH HOST KEY KEYS-----
"""


def test_the_master_is_one_and_workers_follow():
    assert numbers("master", 5) == (1,)
    assert numbers("workers", 3) == (2, 3, 4)


@pytest.mark.parametrize(
    ("group", "numbered", "unnumbered", "size", "expected"),
    [
        ("workers", {}, ["i-a", "i-b"], 2, {"i-a": 2, "i-b": 3}),
        ("workers", {"i-a": 2, "i-b": 3}, ["i-c"], 3, {"i-a": 2, "i-b": 3, "i-c": 4}),
        ("workers", {"i-b": 3}, ["i-c"], 2, {"i-b": 3, "i-c": 2}),
        ("workers", {"i-d": 4}, ["i-c"], 1, {"i-d": 4, "i-c": 2}),
        ("master", {}, ["i-m"], 1, {"i-m": 1}),
        ("master", {"i-m": 1}, [], 1, {"i-m": 1}),
    ],
)
def test_assign_numbers(group, numbered, unnumbered, size, expected):
    assert assign_numbers(group, numbered, unnumbered, size) == expected


def _instance(instance_id, group, minutes, number=None, public_ip=None, more=None):
    tags = {"aws:autoscaling:groupName": group, "deeplearning:cluster": "bert", **({"deeplearning:number": str(number)} if number else {})}
    tags.update(more or {})
    return {
        "InstanceId": instance_id,
        "InstanceType": "c5.large",
        "LaunchTime": NOW + timedelta(minutes=minutes),
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "PrivateIpAddress": f"10.0.0.{minutes}",
        "PublicIpAddress": public_ip,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


def test_nodes_by_number():
    instances = [
        _instance("i-young", "bert-workers", 9),
        _instance("i-three", "bert-workers", 5, number=3),
        _instance("i-old", "bert-workers", 4, more={"NodeType": "Master"}),
        _instance("i-master", "bert-master", 7, number=1, public_ip="203.0.113.4"),
        _instance("i-other", "bert-bastion", 1, more={"NodeType": "Worker"}),
    ]
    found = nodes("bert", instances)
    assert [(node.name, node.instance_id) for node in found] == [
        ("bert-master", "i-master"),
        ("bert-worker2", "i-old"),
        ("bert-worker3", "i-three"),
        ("bert-worker4", "i-young"),
    ]
    assert (found[0].public_ip, found[1].public_ip, found[1].hostname) == ("203.0.113.4", None, "deeplearning-worker2")


@pytest.mark.parametrize(
    ("instances", "message"),
    [
        ([("i-a", "bert-workers", 2), ("i-b", "bert-workers", 2)], "Instances i-a and i-b: each has the number 2"),
        ([("i-b", "bert-master", None), ("i-a", "bert-master", None)], "Instances i-a and i-b: all run in auto scaling group bert-master"),
        ([("i-a", "bert-workers", "1")], "Instance i-a: the tag deeplearning:number is '1', and workers have numbers from 2"),
        ([("i-a", "bert-workers", "many")], "the tag deeplearning:number is 'many'"),
        ([("i-a", "bert-master", "2")], "the tag deeplearning:number is '2', and the master has 1"),
    ],
)
def test_nodes_that_cannot_be_told_apart(instances, message):
    described = [_instance(item, group, minutes, number) for minutes, (item, group, number) in enumerate(instances)]
    with pytest.raises(MembershipError, match=message):
        nodes("bert", described)


def test_all_that_is_wrong_is_said_at_once():
    tags = {"deeplearning:cluster": "theirs", "deeplearning:file-system": "fs-1 /etc", "deeplearning:file-system-address": "10.0.0.1\n"}
    found = problems("bert", [_instance("i-a", "bert-workers", 1, "0", more=tags), _instance("i-z", "other-workers", 1, "0", more=tags)])
    assert len(found) == 4
    assert all(text.startswith("Instance i-a") for text in found)


def test_all_host_keys_on_the_console_agree():
    keys = ["ecdsa-sha2-nistp256 AAAAE2VjZHNh", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA"]
    assert host_keys(CONSOLE) == keys
    assert host_keys(CONSOLE + "a reboot\n" + CONSOLE) == keys
    with pytest.raises(ValueError, match="different SSH host keys"):
        host_keys(CONSOLE + CONSOLE.replace("IA root", "IB root"))


def test_a_block_that_is_not_whole_yet_has_no_keys():
    assert host_keys(CONSOLE[:-20]) == []
    assert host_keys("") == []


def _activity(seconds, status, message=None):
    return {
        "ActivityId": f"{status}-{seconds}",
        "StartTime": NOW + timedelta(seconds=seconds),
        "StatusCode": status,
        "StatusMessage": message,
        "Description": "Launching a new EC2 instance",
    }


def test_capacity_may_come_and_a_bad_key_does_not():
    launches = Launches(since=NOW, wanted=3)
    launches.observe(
        1, [_activity(5, "Failed", "InsufficientInstanceCapacity - We currently do not have sufficient p4d.24xlarge capacity.")]
    )
    assert not launches.hopeless
    assert "1 of 3 nodes of bert-workers are in service" in explain("bert-workers", launches)
    assert "Try another zone or instance type" in explain("bert-workers", launches)
    launches.observe(1, [_activity(6, "Failed", "InvalidKeyPair.NotFound - The key pair 'k' does not exist")])
    assert launches.hopeless
    assert "change key_name" in explain("bert-workers", launches)


@pytest.mark.parametrize(
    ("message", "hopeless", "advice"),
    [
        (
            "We currently do not have sufficient p4d.24xlarge capacity in the Availability Zone you requested (us-east-1a).",
            False,
            "run again",
        ),
        ("There is no Spot capacity available that matches your request. Launching EC2 instance failed.", False, "run again"),
        ("The requested reservation does not have sufficient compatible and available capacity for this request.", False, "no room"),
        ("You have requested more vCPU capacity than your current vCPU limit of 0 allows.", True, "Service Quotas"),
        ("The key pair 'k' does not exist. Launching EC2 instance failed.", True, "key_name"),
        ("Your requested instance type (p4d.24xlarge) is not supported in your requested Availability Zone.", True, "other zones"),
        ("Request limit exceeded. Launching EC2 instance failed.", False, "tries again"),
        (
            "MaxSpotInstanceCountExceeded - Max spot instance count exceeded.",
            True,
            "Spot Instances is used up",
        ),
        ("Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request.", False, "run again"),
        ("SpotMaxPriceTooLow - Your Spot request price of 0.1 is lower than the minimum required Spot request", False, "Raise it"),
        (
            "InvalidParameterCombination - The specified instance type is not eligible for Free Tier.",
            True,
            "Upgrade it to the Paid plan",
        ),
        ("PendingVerification - Your request for accessing resources in this region is being validated.", True, "still verifies"),
        ("OptInRequired - In order to use this AWS Marketplace product you need to accept terms and subscribe.", True, "Subscribe to it"),
        ("Termination Reason: Client.VolumeLimitExceeded: Volume limit exceeded", True, "root_volume_size"),
        ("Something that nobody has seen before.", False, "Something that nobody has seen before"),
        (
            "Instance became unhealthy. Termination Reason: Client.InternalError: Client error on launch",
            True,
            "AWSServiceRoleForAutoScaling",
        ),
    ],
)
def test_reasons_without_a_code_are_understood(message, hopeless, advice):
    launches = Launches(since=NOW, wanted=1)
    launches.observe(0, [_activity(1, "Failed", message)])
    assert launches.hopeless == hopeless
    assert advice in explain("bert-workers", launches)


@pytest.mark.parametrize(
    ("message", "leaving", "replacing", "hopeless"),
    [
        ("VcpuLimitExceeded", False, False, True),
        ("VcpuLimitExceeded", True, True, False),
        ("VcpuLimitExceeded", False, True, False),
        ("InvalidKeyPair.NotFound", True, True, False),
        ("InvalidKeyPair.NotFound", False, True, True),
    ],
)
def test_a_quota_has_room_again_when_a_replaced_node_is_gone(message, leaving, replacing, hopeless):
    launches = Launches(since=NOW, wanted=1)
    launches.observe(0, [_activity(1, "Failed", message)], leaving=leaving, replacing=replacing)
    assert launches.hopeless == hopeless


@pytest.mark.parametrize(
    ("process", "reason", "foreign"),
    [
        ("Launch", "User suspended at 2026-10-01T08:00:00Z", True),
        ("Launch", "Administrative suspension: no instance launched for 24 hours", False),
        ("ReplaceUnhealthy", "User suspended at 2026-10-01T08:00:00Z", False),
    ],
)
def test_whose_suspension_it_is(process, reason, foreign):
    assert groups._is_foreign({"ProcessName": process, "SuspensionReason": reason}) == foreign


def test_old_failures_and_successes_are_no_reason():
    launches = Launches(since=NOW, wanted=3)
    launches.observe(3, [_activity(1, "Successful"), _activity(-600, "Failed", "VcpuLimitExceeded")])
    assert not launches.reasons
    assert not launches.hopeless


@pytest.mark.parametrize(
    ("lifecycle", "shutting_down", "expected"),
    [("InService", [], set()), ("Terminating:Wait", [], {"i-1"}), ("InService", ["i-2"], {"i-2"})],
)
def test_nodes_leave_until_both_the_group_and_ec2_are_done(lifecycle, shutting_down, expected):
    class AwsClient:
        cluster = "bert"

        def retrieve(self, service, operation, key, **arguments):
            if service == "autoscaling":
                assert arguments["AutoScalingGroupNames"] == ["bert-master", "bert-workers"]
                return [{"Instances": [{"InstanceId": "i-1", "LifecycleState": lifecycle}]}]
            assert arguments["Filters"] == [
                {"Name": "tag:aws:autoscaling:groupName", "Values": ["bert-master", "bert-workers"]},
                {"Name": "instance-state-name", "Values": ["shutting-down"]},
            ]
            return [{"Instances": [{"InstanceId": item, "LaunchTime": NOW} for item in shutting_down]}]

    assert leaving(AwsClient()) == expected
