"""An operator who may create launch template versions cannot launch nodes with a role that the operator may not pass."""

from __future__ import annotations

import base64
import gzip
import json

import boto3
import pytest
from botocore.exceptions import ClientError
from integration.clusters import steps
from integration.conftest import FAST, ModuleFailed
from permissions import operators

__all__ = ["operators"]
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


@pytest.fixture(autouse=True)
def _fast(cloud):
    cloud.control.reset()
    cloud.control.set_delays(**FAST)


def _group(cloud, name):
    return cloud.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[f"{name}-workers"])["AutoScalingGroups"][0]


def _profile(cloud, name):
    """Create an instance profile whose role the operator may not pass. Return the profile's name."""
    iam = cloud.client("iam")
    iam.create_role(RoleName=f"{name}-theirs", AssumeRolePolicyDocument=json.dumps(TRUST))
    iam.create_instance_profile(InstanceProfileName=f"{name}-theirs")
    iam.add_role_to_instance_profile(InstanceProfileName=f"{name}-theirs", RoleName=f"{name}-theirs")
    return f"{name}-theirs"


def test_groups_launch_one_version(cloud, run, definition, name):
    """A run also corrects groups from earlier releases, which launch the newest version, and groups that a killed run did not update."""
    run("cluster", **definition)
    group = _group(cloud, name)
    assert group["LaunchTemplate"]["Version"] == "1"
    wider = {**definition, "root_volume_size": 150}
    assert run("cluster", **wider)["deferred"]
    assert _group(cloud, name)["LaunchTemplate"]["Version"] == "1"
    check = run("cluster", **wider, replace_nodes=True, check=True)
    foreseen = next(item for item in check["changes"] if (item["kind"], item["key"]) == ("auto_scaling_group", "workers"))
    assert (foreseen["before"], foreseen["after"]) == ({"template_version": "1"}, {"template_version": "(known after apply)"})
    run("cluster", **wider, replace_nodes=True)
    group = _group(cloud, name)
    assert group["LaunchTemplate"]["Version"] == "2"
    assert {instance["LaunchTemplate"]["Version"] for instance in group["Instances"]} == {"2"}
    for version in ("$Latest", "1"):
        cloud.client("autoscaling").update_auto_scaling_group(
            AutoScalingGroupName=f"{name}-workers",
            LaunchTemplate={"LaunchTemplateId": group["LaunchTemplate"]["LaunchTemplateId"], "Version": version},
        )
        assert steps(run("cluster", **wider)) == {("update", "auto_scaling_group workers")}
        assert _group(cloud, name)["LaunchTemplate"]["Version"] == "2"
        assert not run("cluster", **wider)["changed"]


def test_a_launch_template_of_others_with_the_tags_of_the_cluster(cloud, run, definition, name):
    """Anyone who may tag launch templates can give theirs the tags of any cluster."""
    run("cluster", **definition)
    tags = {"deeplearning:cluster": name, "deeplearning:component": "nodes"}
    theirs = cloud.client("ec2").create_launch_template(
        LaunchTemplateName=f"{name}-theirs",
        LaunchTemplateData={"UserData": base64.b64encode(gzip.compress(b"#!/bin/sh")).decode(), "NetworkInterfaces": [{"DeviceIndex": 0}]},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}],
    )["LaunchTemplate"]["LaunchTemplateId"]
    group = cloud.client("ec2").create_placement_group(
        GroupName=f"{name}-theirs",
        Strategy="cluster",
        TagSpecifications=[{"ResourceType": "placement-group", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}],
    )["PlacementGroup"]
    assert not run("cluster", **definition)["changed"], "resources without a key are not those of the cluster"
    cloud.client("ec2").create_tags(Resources=[theirs], Tags=[{"Key": "deeplearning:key", "Value": "theirs"}])
    absent = {"cluster": name, "state": "absent"}
    for options in (definition, absent):
        with pytest.raises(ModuleFailed, match=f"{theirs}: the tags assign this resource to {name}, .*remove its tag deeplearning:cluster"):
            run("cluster", **options)
    cloud.client("ec2").delete_tags(Resources=[theirs], Tags=[{"Key": "deeplearning:cluster"}])
    assert run("cluster", **absent)["changed"]
    left = cloud.client("ec2").describe_launch_templates(LaunchTemplateIds=[theirs])["LaunchTemplates"]
    assert [item["LaunchTemplateId"] for item in left] == [theirs]
    assert cloud.client("ec2").describe_placement_groups(GroupNames=[group["GroupName"]])["PlacementGroups"]


def test_operators_cannot_launch_with_the_role_of_others(cloud, run, definition, name, operators):
    profile = _profile(cloud, name)
    operators.be("train")
    run("cluster", **definition)
    template = _group(cloud, name)["LaunchTemplate"]["LaunchTemplateId"]
    session = boto3.session.Session()
    ec2, autoscaling = session.client("ec2"), session.client("autoscaling")
    version = ec2.create_launch_template_version(
        LaunchTemplateId=template, SourceVersion="1", LaunchTemplateData={"IamInstanceProfile": {"Name": profile}}
    )["LaunchTemplateVersion"]["VersionNumber"]
    for wanted in ("$Latest", "$Default", str(version)):
        with pytest.raises(ClientError, match="not authorized"):
            autoscaling.update_auto_scaling_group(
                AutoScalingGroupName=f"{name}-workers", LaunchTemplate={"LaunchTemplateId": template, "Version": wanted}
            )
    assert _group(cloud, name)["LaunchTemplate"]["Version"] == "1"
    # Other properties of the group may change
    autoscaling.update_auto_scaling_group(AutoScalingGroupName=f"{name}-workers", HealthCheckGracePeriod=200)
