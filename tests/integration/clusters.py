"""The resources of a cluster, and its nodes as AWS and the inventory describe them."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import ansible_commands
from local_cloud.testing import wait_until

from .conftest import REGION

P4D = "p4d.24xlarge"  # this type has four network cards
ZONES = ["us-east-1a", "us-east-1b"]
EXPECTED = {
    "vpc main",
    "internet_gateway main",
    "subnet private-us-east-1a",
    "subnet public-us-east-1a",
    "elastic_ip nat",
    "nat_gateway main",
    "route_table public",
    "route_table private",
    "vpc_endpoint s3",
    "security_group nodes",
    "security_group ssh",
    "security_group storage",
    "file_system main",
    "file_system_policy main",
    "mount_target us-east-1a",
    "role nodes",
    "instance_profile nodes",
    "launch_template master",
    "launch_template workers",
    "auto_scaling_group master",
    "auto_scaling_group workers",
    "nodes master",
    "nodes workers",
    "placement_group main",
}


def steps(result):
    return {(change["action"], f"{change['kind']} {change['key']}") for change in result["changes"]}


def writes(cloud):
    return [call["action"] for call in cloud.control.calls() if not call["read_only"]]


def instances(cloud, name, *states):
    filters = [
        {"Name": "tag:deeplearning:cluster", "Values": [name]},
        {"Name": "instance-state-name", "Values": list(states or ("pending", "running"))},
    ]
    pages = cloud.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
    found = [instance for page in pages for reservation in page["Reservations"] for instance in reservation["Instances"]]
    return {instance["InstanceId"]: {tag["Key"]: tag["Value"] for tag in instance["Tags"]} for instance in found}


def numbers(cloud, name):
    return {instance_id: int(tags["deeplearning:number"]) for instance_id, tags in instances(cloud, name).items()}


def described(cloud, name, node_type=None):
    """Return the cluster's running instances as EC2 describes them, optionally of one node type."""
    filters = [{"Name": "tag:deeplearning:cluster", "Values": [name]}, {"Name": "instance-state-name", "Values": ["running"]}]
    filters += [{"Name": "tag:NodeType", "Values": [node_type]}] if node_type else []
    reservations = cloud.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [instance for reservation in reservations for instance in reservation["Instances"]]


def inventory(cloud, tmp_path, name, environment=None, **more):
    path = tmp_path / "nodes.yml"
    path.write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION, **more}))
    finished = ansible_commands.run(["ansible-inventory", "-i", str(path), "--list"], environment or cloud.environment, tmp_path)
    return json.loads(finished.stdout, object_hook=lambda item: item.get("__ansible_unsafe", item)), finished.stderr


def running(cloud, name) -> int:
    """Return the number of the cluster's instances that run or will run."""
    return len(instances(cloud, name))


def groups(cloud, name) -> set[str]:
    found = cloud.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return {each["AutoScalingGroupName"] for each in found if each["AutoScalingGroupName"].startswith(name)}


def all_end(cloud, name) -> bool:
    """Return whether AWS ends all nodes and groups. The terminations take a moment."""
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: running(cloud, name) == 0 and groups(cloud, name) == set(), 20)
        return True
    return False


def kinds(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(change["action"], change["kind"]) for change in result["changes"]]


def subscribed(cloud, name, topic):
    """Return the URL of a new queue that gets the messages of a topic."""
    sqs = cloud.client("sqs")
    queue = sqs.create_queue(QueueName=f"{name}-mail")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    cloud.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return queue


def delete_role(cloud, name, end):
    """Delete the role of an end of the nodes, `lease` or `idle`."""
    role = f"{name}-nodes-{end}-us-east-1"
    cloud.client("iam").delete_role_policy(RoleName=role, PolicyName=end)
    cloud.client("iam").delete_role(RoleName=role)
