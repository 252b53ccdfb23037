"""Tests that check which instances are leaving an Auto Scaling group."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.launch_and_termination import leaving

from .described import NOW


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
