"""Tests that check which processes of an Auto Scaling group the collection itself has suspended, and how its instances are read."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import auto_scaling_groups


@pytest.mark.parametrize(
    ("process", "reason", "foreign"),
    [
        ("Launch", "User suspended at 2026-10-01T08:00:00Z", True),
        ("Launch", "Administrative suspension: no instance launched for 24 hours", False),
        ("ReplaceUnhealthy", "User suspended at 2026-10-01T08:00:00Z", False),
    ],
)
def test_whose_suspension_it_is(process, reason, foreign):
    assert auto_scaling_groups._is_foreign({"ProcessName": process, "SuspensionReason": reason}) == foreign


@pytest.mark.parametrize("state", ["Pending", "Pending:Wait", "Terminating", "Terminating:Wait"])
def test_the_launch_template_of_an_instance_outside_service_may_be_unknown(state):
    former = {"LaunchTemplateId": "lt-former", "Version": "1"}
    members = [
        {"InstanceId": "i-1", "LifecycleState": "InService"},
        {"InstanceId": "i-2", "LifecycleState": state},
        {"InstanceId": "i-3", "LifecycleState": state, "LaunchTemplate": former},
    ]
    assert auto_scaling_groups.launched_from(members) == {"i-1": {}, "i-3": former}
