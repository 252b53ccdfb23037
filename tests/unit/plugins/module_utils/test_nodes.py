# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Numbers stay with their instances, host keys come from the console, reasons come in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._nodes.activities import Launches, explain
from ansible_collections.deeplearning.cluster.plugins.module_utils._nodes.console import host_keys
from ansible_collections.deeplearning.cluster.plugins.module_utils._nodes.definition import assign_numbers, numbers
from ansible_collections.deeplearning.cluster.plugins.module_utils._nodes.facts import nodes
from ansible_collections.deeplearning.cluster.plugins.module_utils._nodes.members import leaving

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


def _instance(instance_id, node_type, minutes, number=None, public_ip=None):
    tags = {"NodeType": node_type, **({"deeplearning:number": str(number)} if number else {})}
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
        _instance("i-young", "Worker", 9),
        _instance("i-three", "Worker", 5, number=3),
        _instance("i-old", "Worker", 4),
        _instance("i-master", "Master", 7, number=1, public_ip="203.0.113.4"),
        _instance("i-other", "Bastion", 1),
    ]
    found = nodes("bert", instances)
    assert [(node.name, node.instance_id) for node in found] == [
        ("bert-master", "i-master"),
        ("bert-worker2", "i-old"),
        ("bert-worker3", "i-three"),
        ("bert-worker4", "i-young"),
    ]
    assert (found[0].public_ip, found[1].public_ip, found[1].hostname) == ("203.0.113.4", None, "deeplearning-worker2")


def test_host_keys_of_the_newest_boot():
    assert host_keys(CONSOLE) == ["ecdsa-sha2-nistp256 AAAAE2VjZHNh", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA"]
    assert host_keys(CONSOLE + CONSOLE.replace("IA root", "IB root"))[1].endswith("IB")


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
    class Cloud:
        def filters(self, *more):
            return list(more)

        def retrieve(self, service, operation, key, **arguments):
            if service == "autoscaling":
                return [{"Instances": [{"InstanceId": "i-1", "LifecycleState": lifecycle}]}]
            assert arguments["Filters"] == [{"Name": "instance-state-name", "Values": ["shutting-down"]}]
            return [{"Instances": [{"InstanceId": item, "LaunchTime": NOW} for item in shutting_down]}]

    assert leaving(Cloud()) == expected
