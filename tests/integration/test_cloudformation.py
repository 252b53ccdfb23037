"""Requests of the modules as CloudFormation resources, which cfn-lint checks with the schemas of AWS.

The schemas contain patterns, lengths, enumerations and forbidden combinations that botocore's models lack.
"""

from __future__ import annotations

import json

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from .conftest import REGION, cluster_options, new_name, run_module

# Parameters with another name, by type.
RENAMED = {
    "AWS::EC2::SecurityGroup": {"Description": "GroupDescription"},
    "AWS::EFS::FileSystem": {"Tags": "FileSystemTags"},
    "AWS::EC2::PlacementGroup": {"GroupName": ""},  # CloudFormation chooses the name
}
# The type of the resource that an API call creates. Both name most properties alike.
TYPES = {
    "CreateAutoScalingGroup": "AWS::AutoScaling::AutoScalingGroup",
    "CreateDataRepositoryAssociation": "AWS::FSx::DataRepositoryAssociation",
    "CreateLaunchTemplate": "AWS::EC2::LaunchTemplate",
    "CreateMountTarget": "AWS::EFS::MountTarget",
    "CreateNatGateway": "AWS::EC2::NatGateway",
    "CreatePlacementGroup": "AWS::EC2::PlacementGroup",
    "CreateRole": "AWS::IAM::Role",
    "CreateSecurityGroup": "AWS::EC2::SecurityGroup",
    "CreateSubnet": "AWS::EC2::Subnet",
    "CreateVpc": "AWS::EC2::VPC",
    "CreateVpcEndpoint": "AWS::EC2::VPCEndpoint",
    "PutRolePolicy": "AWS::IAM::RolePolicy",
}
# Parameters that make requests idempotent.
TOKENS = ("ClientToken", "ClientRequestToken", "CreationToken")
# Advice for people who write templates.
ADVICE = ["W3010"]


def kind_of(call):
    if call["action"] == "CreateFileSystem":
        return "AWS::FSx::FileSystem" if call["service"] == "fsx" else "AWS::EFS::FileSystem"
    return TYPES.get(call["action"])


def properties_of(kind, parameters):
    """Return the request in the form of CloudFormation."""
    renamed = RENAMED.get(kind, {})
    found = {renamed.get(name, name): value for name, value in parameters.items() if name not in TOKENS}
    found.pop("", None)
    if kind != "AWS::EC2::LaunchTemplate":
        for specification in found.pop("TagSpecifications", None) or []:
            found["Tags"] = specification["Tags"]
    if "Tags" in found and kind == "AWS::AutoScaling::AutoScalingGroup":
        found["Tags"] = [{name: tag[name] for name in ("Key", "Value", "PropagateAtLaunch")} for tag in found["Tags"]]
        found["VPCZoneIdentifier"] = found["VPCZoneIdentifier"].split(",")
    return {name: json.loads(value) if name.endswith("PolicyDocument") else value for name, value in found.items()}


def found_by_cfn_lint(resources):
    template = json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources})
    findings = lint(template, config=ManualArgs(regions=[REGION], ignore_checks=ADVICE))
    return [f"{each.rule.id} {each.message} ({'/'.join(map(str, each.path))})" for each in findings]


@pytest.mark.parametrize(
    "options",
    [
        {"instance_type": "p5.48xlarge", "efa": True, "lustre": True, "interface_endpoints": ["ssm"], "read_buckets": ["data"]},
        {"instance_type": "g5.12xlarge", "market": "spot", "spot_max_price": "40", "root_volume_throughput": 250, "nat": "none"},
    ],
    ids=lambda options: options["instance_type"],
)
def test_requests_have_the_form_of_cloudformation(cloud, options):
    name = new_name()
    cloud.client("s3").create_bucket(Bucket=f"{name}-data")
    if options.get("lustre"):
        key = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]
        links = [{"path": "/train", "s3": f"s3://{name}-data/train", "export_changes": True}]
        options = {**options, "kms_key_id": key, "lustre_data_repositories": links}
    run_module("cluster", **{**cluster_options(name), "worker_count": 1, **options})
    calls = [call for call in cloud.control.calls() if call["parameters"] and kind_of(call)]
    assert {"CreateAutoScalingGroup", "CreateFileSystem", "CreateLaunchTemplate", "CreateRole"} <= {call["action"] for call in calls}
    requested = [{"Type": kind_of(call), "Properties": properties_of(kind_of(call), call["parameters"])} for call in calls]
    # Calls about new resources are repeated
    resources = {f"Resource{number}": each for number, each in enumerate(requested) if each not in requested[:number]}
    assert found_by_cfn_lint(resources) == []
    (template,) = (each for each in resources.values() if each["Type"] == TYPES["CreateLaunchTemplate"] and "master" in str(each))
    template["Properties"]["LaunchTemplateData"]["MetadataOptions"]["HttpTokens"] = "sometimes"
    assert len(found_by_cfn_lint(resources)) == 1
