"""Tests that the reasons for failed launches are read from the activities of a group."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.insufficient_capacity import Launches, explain

from .described import NOW


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
    assert "Try another zone, instance type or market (alternatives)" in explain("bert-workers", launches)
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
        (
            "The requested reservation does not have sufficient compatible and available capacity for this request.",
            False,
            "no available capacity",
        ),
        ("You have requested more vCPU capacity than your current vCPU limit of 0 allows.", True, "Service Quotas"),
        ("The key pair 'k' does not exist. Launching EC2 instance failed.", True, "key_name"),
        ("Your requested instance type (p4d.24xlarge) is not supported in your requested Availability Zone.", True, "other zones"),
        ("Request limit exceeded. Launching EC2 instance failed.", False, "retries automatically"),
        (
            "MaxSpotInstanceCountExceeded - Max spot instance count exceeded.",
            True,
            "Spot Instances is exhausted",
        ),
        ("Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request.", False, "run again"),
        (
            "SpotMaxPriceTooLow - Your Spot request price of 0.1 is lower than the minimum required Spot request",
            False,
            "Increase spot_max_price",
        ),
        (
            "InvalidParameterCombination - The specified instance type is not eligible for Free Tier.",
            True,
            "Upgrade the account to the Paid plan",
        ),
        ("PendingVerification - Your request for accessing resources in this region is being validated.", True, "is verifying"),
        ("OptInRequired - In order to use this AWS Marketplace product you need to accept terms and subscribe.", True, "Subscribe to it"),
        ("Termination Reason: Client.VolumeLimitExceeded: Volume limit exceeded", True, "root_volume_size"),
        ("Client.UnauthorizedOperation: You are not authorized to perform this operation.", True, "service control policies"),
        ("Blocked - This account is currently blocked and not recognized as a valid account.", True, "AWS Support"),
        (
            "InvalidParameterValue - Value (x) for parameter y is invalid. Launching EC2 instance failed.",
            True,
            "the option that the AWS message",
        ),
        ("Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", False, "not visible"),
        ("InvalidBlockDeviceMapping - Volume of size 8GB is smaller than snapshot", True, "launch template"),
        ("MaxIOPSLimitExceeded - You have exceeded your maximum IOPS limit.", True, "A quota of the account"),
        ("RequestLimitExceeded - Request limit exceeded.", False, "retries automatically"),
        ("The image id '[ami-1]' does not exist. Launching EC2 instance failed.", True, "image_id"),
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


def test_old_failures_and_successes_are_no_reason():
    launches = Launches(since=NOW, wanted=3)
    launches.observe(3, [_activity(1, "Successful"), _activity(-600, "Failed", "VcpuLimitExceeded")])
    assert not launches.reasons
    assert not launches.hopeless


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "We currently do not have sufficient p4d.24xlarge capacity in the zone (us-east-1a). Our system will be working on it.",
            "We currently do not have sufficient p4d.24xlarge capacity in the zone (us-east-1a)",
        ),
        (
            "Instance became unhealthy. Termination Reason: Server.InternalError: podman network: subnet 10.97.0.0/16 is already used",
            "Server.InternalError: podman network: subnet 10.97.0.0/16 is already used",
        ),
        ("The key pair 'k' does not exist. Launching EC2 instance failed.", "The key pair 'k' does not exist"),
        (
            "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request. Adjust.",
            "UnfulfillableCapacity - Unable to fulfill capacity due to your request",
        ),
        ("x" * 500, "x" * 197 + "..."),
    ],
)
def test_each_line_of_progress_has_the_reason_in_the_words_of_aws(message, shown):
    launches = Launches(since=NOW, wanted=1)
    assert launches.newest_reason() == ""
    launches.observe(0, [_activity(2, "Failed", message), _activity(1, "Failed", "an older one")])
    assert launches.newest_reason() == f"; AWS reports: {shown}"


def test_what_aws_reports_about_an_unfinished_launch_is_shown_and_does_not_end_the_wait():
    launches = Launches(since=NOW, wanted=1)
    spot = _activity(3, "WaitingForSpotInstanceId", "Placed Spot instance request: sir-1. Waiting for instance(s)")
    launches.observe(0, [spot, _activity(2, "InProgress")])
    assert launches.newest_reason() == "; AWS reports: Placed Spot instance request: sir-1"
    assert not launches.hopeless
    launches.observe(0, [spot, _activity(2, "Failed", "Insufficient capacity")])
    assert launches.newest_reason() == "; AWS reports: Insufficient capacity"
