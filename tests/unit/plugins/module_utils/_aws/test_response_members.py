"""Tests that check what the inventory's SDK clients parse."""

from __future__ import annotations

import boto3
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.response_members import MEMBERS, limit_members
from botocore.awsrequest import AWSResponse

INSTANCES = b"""<?xml version="1.0"?><DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15"><reservationSet><item>
<reservationId>r-1</reservationId><instancesSet><item><instanceId>i-1</instanceId><launchTime>2026-11-28T03:10:46.000Z</launchTime>
<instanceState><code>16</code><name>running</name></instanceState><placement><availabilityZone>us-east-1a</availabilityZone>
<tenancy>default</tenancy></placement><tagSet><item><key>a</key><value>b</value></item></tagSet><networkInterfaceSet><item>
<interfaceType>efa</interfaceType><status>in-use</status></item></networkInterfaceSet></item></instancesSet></item></reservationSet>
<nextToken>2</nextToken></DescribeInstancesResponse>"""
GROUPS = b"""<DescribeAutoScalingGroupsResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><DescribeAutoScalingGroupsResult>
<AutoScalingGroups><member><AutoScalingGroupName>c-master</AutoScalingGroupName><MinSize>1</MinSize><Instances><member>
<InstanceId>i-1</InstanceId></member></Instances><Tags><member><Key>a</Key><Value>b</Value></member></Tags></member></AutoScalingGroups>
</DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>"""


def answered(service, operation, body):
    client = boto3.client(service, "us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    limit_members(client, service)
    raw = type("Raw", (), {"stream": lambda *_a, **_k: iter([body])})()
    client.meta.events.register("before-send", lambda **_: AWSResponse("https://aws.example", 200, {}, raw))
    answer = getattr(client, operation)()
    return {key: value for key, value in answer.items() if key != "ResponseMetadata"}


def test_the_inventory_gets_what_it_reads_and_nothing_else():
    instance = {
        "InstanceId": "i-1",
        "LaunchTime": "2026-11-28T03:10:46.000Z",
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "Tags": [{"Key": "a", "Value": "b"}],
        "NetworkInterfaces": [{"InterfaceType": "efa"}],
    }
    assert answered("ec2", "describe_instances", INSTANCES) == {"Reservations": [{"Instances": [instance]}], "NextToken": "2"}
    (group,) = answered("autoscaling", "describe_auto_scaling_groups", GROUPS)["AutoScalingGroups"]
    assert group == {"AutoScalingGroupName": "c-master", "Tags": [{"Key": "a", "Value": "b"}]}


@pytest.mark.parametrize("service", [*MEMBERS, "ssm"])
def test_other_operations_and_clients_are_complete(service):
    client = boto3.client(service, "us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    limit_members(client, service)
    other = boto3.client("ec2", "us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    shape = other.meta.service_model.operation_model("DescribeInstances").output_shape
    assert len(shape.members["Reservations"].member.members["Instances"].member.members) > 50
