"""Nodes in intermediate states: after abandoned or killed attempts, while masters are replaced, and while clusters grow."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import capacity, launch_and_termination
from local_cloud.testing import wait_until

from .clusters import P4D, ZONES, described, instances, numbers, steps

pytestmark = pytest.mark.usefixtures("room_for_the_next")


@pytest.fixture
def definition(definition):
    return {**definition, "suppress_validators": ["vcpu_quota"], "capacity_timeout": 10}


def has_policy(efs, file_system):
    """Return whether EFS shows the policy of a file system. If a run does not wait, EFS may show the policy only after the run."""
    try:
        return bool(efs.describe_file_system_policy(FileSystemId=file_system)["Policy"])
    except efs.exceptions.PolicyNotFound:
        return False


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"alternatives": [{"instance_type": "c5.xlarge"}]}, ("c5.large", "us-east-1a")),
        ({"placement": "cluster", "zones": ZONES}, ("c5.large", "us-east-1a")),
    ],
    ids=["type", "zone"],
)
def test_what_a_killed_attempt_launched_is_not_mixed_with_other_nodes(cloud, run, definition, name, monkeypatch, more, expected):
    options = {**definition, **more}
    with monkeypatch.context() as killed_at_the_second:
        killed_at_the_second.setattr(capacity, "choices", lambda request, found: capacity.alternatives(request, found)[1:])
        launched = run("cluster", **options, wait=False)
    wait_until(lambda: len(described(cloud, name)) == 3)
    wait_until(lambda: has_policy(cloud.client("efs"), launched["resources"]["file_system"]["main"]))
    before = {item["InstanceId"] for item in described(cloud, name)}
    predicted = run("cluster", **options, check=True)
    assert steps(run("cluster", **options)) == steps(predicted)
    assert {(item["InstanceType"], item["Placement"]["AvailabilityZone"]) for item in described(cloud, name)} == {expected}
    assert not before & set(numbers(cloud, name))
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]
    assert not run("cluster", **options, replace_nodes=True)["changed"]


def test_the_next_alternative_waits_until_the_nodes_of_the_last_are_gone(cloud, run, definition, name, monkeypatch):
    """Instances count against quotas and occupy placement groups while they shut down."""
    types = []

    def leaving(_cloud):
        templates = cloud.client("ec2").describe_launch_template_versions(LaunchTemplateName=f"{name}-workers", Versions=["$Latest"])
        types.append(templates["LaunchTemplateVersions"][0]["LaunchTemplateData"]["InstanceType"])
        return {"i-0123456789abcdef0"} if len(types) < 3 else set()

    monkeypatch.setattr(launch_and_termination, "leaving", leaving)
    cloud.control.set_capacity({P4D: {"us-east-1a": 2}})
    result = run("cluster", **{**definition, "instance_type": P4D}, alternatives=[{"instance_type": "c5.large"}])
    assert result["alternative"] == "c5.large in us-east-1a (on-demand)"
    assert types == [P4D] * 3


def test_the_address_goes_to_the_new_master_when_nodes_are_replaced(cloud, run, definition, name, tmp_path):
    options = {**definition, "instance_type": P4D, "efa": True, "worker_count": 1, "capacity_timeout": 30}
    run("cluster", **options)
    (old,) = described(cloud, name, "Master")
    options["root_volume_size"] = 200
    assert not run("cluster", **options)["changed"]
    predicted = run("cluster", **options, replace_nodes=True, check=True)
    assert ("update", "master_address master") in steps(predicted)
    told = tmp_path / "progress"
    told.touch()
    assert steps(run("cluster", **options, replace_nodes=True, progress_file=str(told))) == steps(predicted)
    assert f"Replacing {name}-master, 1 of 1\n" in told.read_text()
    (master,) = described(cloud, name, "Master")
    assert (master["InstanceId"] != old["InstanceId"], master.get("PublicIpAddress")) == (True, old["PublicIpAddress"])
    assert not run("cluster", **options, replace_nodes=True)["changed"]


def test_a_cluster_that_is_still_to_grow_is_not_called_too_small(run, definition):
    run("cluster", **definition, wait=False)
    for more in ({"check": True}, {"wait": False}):
        assert run("cluster", **definition, **more)["degraded"] is None
    run("cluster", **definition)
    for more in ({"check": True}, {"wait": False}):
        assert run("cluster", **{**definition, "worker_count": 3}, **more)["degraded"] is None


def test_a_node_that_has_left_its_group_is_not_missed(cloud, run, definition, name):
    run("cluster", **definition)
    gone = {"code": "ValidationError", "status": 400, "message": "Instance Id not found - No managed instance found for instance ID: i-1"}
    cloud.control.set_faults([{**gone, "action": "TerminateInstanceInAutoScalingGroup", "after": True, "times": 1}])
    run("cluster", **{**definition, "worker_count": 1})
    assert sorted(numbers(cloud, name).values()) == [1, 2]


def test_nodes_do_not_say_that_they_mount_what_they_do_not(cloud, run, definition, name):
    run("cluster", **definition, lustre=True, wait=False)
    run("cluster", **definition)
    assert not [tags for tags in instances(cloud, name).values() if "deeplearning:lustre-file-system" in tags]
    assert not run("cluster", **definition)["changed"]
