# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The AWS Lambda function that ends idle nodes. This file alone is the function's code, so it imports nothing of the collection.

Idle nodes say so on their serial consoles, which AWS reads without permissions for the nodes. A node that says nothing counts as in use.
"""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Iterator, Mapping, Sequence

# Tags of the function: until when nodes are kept, whatever they report, and since when they have been idle.
HOLD, IDLE_SINCE = "deeplearning:hold:", "deeplearning:idle-since"
# What a node prints on its console (`_hosts/idle_reports/report.py`): since when it is idle or that it is in use, and the present time.
REPORT = re.compile(r"deeplearning: (?:idle since (\S{20})|in use), reported at (\S{20})\.")
# A message of the kernel can interrupt a report.
KERNEL_LINE = re.compile(r"\[ *\d+\.\d+\] [^\r\n]*[\r\n]+")
# Reports that are older tell nothing about the present. Idle nodes report every 10 minutes.
FRESH = timedelta(minutes=20)


def time_of(text: str) -> datetime:
    """Return the time that a tag contains. A text that is no time means the past."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
    except ValueError:
        return datetime.fromtimestamp(0, timezone.utc)


def handler(_event: object, context: Any) -> dict[str, Any]:
    """Delete the Auto Scaling groups if all nodes are idle and no hold keeps them. Return what was decided and why."""
    import boto3  # AWS Lambda provides it

    own, arn = boto3.client("lambda"), context.invoked_function_arn
    answer = own.list_tags(Resource=arn)
    now, tags = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]), answer["Tags"]
    ends = {key: time_of(value) for key, value in tags.items() if key.startswith(HOLD)}
    past = [key for key, end in ends.items() if end <= now]
    if past:
        own.untag_resource(Resource=arn, TagKeys=past)
    if len(past) < len(ends):
        return {"idle": False, "why": f"the nodes are kept until {max(ends.values()):%Y-%m-%d %H:%M} UTC"}
    ec2 = boto3.client("ec2")
    nodes = list(running(ec2, os.environ["GROUPS"].split(",")))
    if not nodes:
        return {"idle": False, "why": "no nodes"}
    after = timedelta(seconds=int(os.environ["IDLE_SECONDS"]))
    busy = why_busy(ec2, nodes, now, after)
    if busy:
        if IDLE_SINCE in tags and os.environ["THEN"] == "notify":
            own.untag_resource(Resource=arn, TagKeys=[IDLE_SINCE])
        return {"idle": False, "why": busy}
    since = now - after
    if os.environ["THEN"] == "terminate":
        _delete_groups(boto3.client("autoscaling"))
    if IDLE_SINCE not in tags:
        own.tag_resource(Resource=arn, Tags={IDLE_SINCE: f"{since:%Y-%m-%dT%H:%M:%SZ}"})
        _tell(boto3, nodes, since)
    return {"idle": True, "why": f"all {len(nodes)} nodes have been idle since {since:%Y-%m-%d %H:%M} UTC"}


def why_busy(ec2: Any, nodes: Sequence[Mapping[str, Any]], now: datetime, after: timedelta) -> str:
    """Return why the nodes are not idle, or an empty string. Each node has the keys id, name, state and launched."""
    for node in nodes:
        if node["state"] != "running" or node["launched"] > now - after:
            return f"{node['name']} was launched less than {after} ago"
    for node in nodes:
        since = idle_since(console_output(ec2, node["id"]), now)
        if since is None:
            return f"{node['name']} does not report that it is idle"
        if since > now - after:
            return f"{node['name']} has been idle only since {since:%Y-%m-%d %H:%M} UTC"
    return ""


def idle_since(output: str, now: datetime) -> datetime | None:
    """Return since when a node has been idle by its console, or None if its last report is missing or old."""
    reports = REPORT.findall(KERNEL_LINE.sub("", output))
    since, reported = reports[-1] if reports else ("", "")
    return time_of(since) if since and abs(now - time_of(reported)) <= FRESH else None


def console_output(ec2: Any, instance_id: str) -> str:
    """Return the current console output of a node. Instances on Xen have none, and those that have gone have none any more."""
    try:
        return str(ec2.get_console_output(InstanceId=instance_id, Latest=True).get("Output", ""))
    except ec2.exceptions.ClientError as error:
        if error.response["Error"]["Code"] in ("UnsupportedOperation", "InvalidInstanceID.NotFound"):
            return ""
        raise


def running(client: Any, groups: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the instances of the groups that run or will run."""
    filters = [
        {"Name": "tag:aws:autoscaling:groupName", "Values": list(groups)},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    for page in client.get_paginator("describe_instances").paginate(Filters=filters):
        for instance in (each for reservation in page["Reservations"] for each in reservation["Instances"]):
            yield {
                "id": instance["InstanceId"],
                "name": next((tag["Value"] for tag in instance["Tags"] if tag["Key"] == "Name"), instance["InstanceId"]),
                "state": instance["State"]["Name"],
                "launched": instance["LaunchTime"],
            }


def _delete_groups(client: Any) -> None:
    """Delete the groups with their instances. A group may be gone, or on its way."""
    for name in os.environ["GROUPS"].split(","):
        try:
            client.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
        except client.exceptions.ClientError as error:
            if "not found" not in str(error):
                raise


def _tell(boto3: Any, nodes: Sequence[Mapping[str, Any]], since: datetime) -> None:
    """Send a notification if there is a topic. A failure does not change what happens to the nodes."""
    cluster, ends = os.environ["CLUSTER"], os.environ["THEN"] == "terminate"
    if "TOPIC" not in os.environ:
        return
    count = "The node" if len(nodes) == 1 else f"All {len(nodes)} nodes"
    be, they = ("has", "it") if len(nodes) == 1 else ("have", "them")
    done = (
        f"AWS terminates {they}. The data is kept. To see what still costs money, run ansible-playbook deeplearning.cluster.info. To start "
        "nodes again, run ansible-playbook deeplearning.cluster.provision -e deeplearning_start_again=true"
        if ends
        else f"With deeplearning_idle_then: terminate, AWS would now terminate {they}."
    )
    text = f"{count} of cluster {cluster} {be} been idle since {since:%Y-%m-%d %H:%M} UTC. {done}"
    try:
        boto3.client("sns").publish(TopicArn=os.environ["TOPIC"], Subject=f"Cluster {cluster} is idle", Message=text)
    except Exception as error:
        print(f"notification: {error}")
