# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The AWS Lambda function that ends idle nodes. This file alone is the function's code, so it imports nothing of the collection.

Idle nodes say so on their serial consoles, which AWS reads without permissions for the nodes. A node that says nothing counts as in use.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Iterator, Mapping, Sequence

# Tags of the function: until when nodes are kept, whatever they report, since when they have been idle, and that people have been warned.
HOLD, IDLE_SINCE, WARNED = "deeplearning:hold:", "deeplearning:idle-since", "deeplearning:idle-warned"
# What a node prints on its console (`_hosts/idle_reports/report.py`): since when it is idle or that it is in use, and the present time.
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
REPORT = re.compile(rf"deeplearning: (?:idle since ({TIME})|in use), reported at ({TIME})\.")
NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
KERNEL = re.compile(r"\[ *\d+\.\d+\] ")
# Reports that are older tell nothing about the present. Idle nodes report every 10 minutes.
FRESH = timedelta(minutes=20)
# The topic is told so long before the end.
WARNING = timedelta(minutes=10)
AT_ONCE = 16  # consoles


def time_of(text: str) -> datetime:
    """Return the time that a tag or a report contains. A text that is no time means the past."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
    except (OverflowError, ValueError):
        return datetime.fromtimestamp(0, timezone.utc)


class Function:
    """This function, as AWS has called it, and its tags."""

    def __init__(self, boto3: Any, arn: str) -> None:
        self.boto3, self.arn, self.client = boto3, arn, boto3.client("lambda")
        self.cluster, self.groups = os.environ["CLUSTER"], os.environ["GROUPS"].split(",")
        self.after, self.ends = timedelta(seconds=int(os.environ["IDLE_SECONDS"])), os.environ["THEN"] == "terminate"
        self.read_tags()

    def read_tags(self) -> None:
        answer = self.client.list_tags(Resource=self.arn)
        self.now, self.tags = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]), answer["Tags"]

    def held(self) -> str:
        """Return until when a hold keeps the nodes, or an empty string. Remove holds that have ended."""
        holds = {key: time_of(value) for key, value in self.tags.items() if key.startswith(HOLD)}
        self.untag(*(key for key, end in holds.items() if end <= self.now))
        end = max(holds.values(), default=self.now)
        return f"the nodes are kept until {_shown(end)}" if end > self.now else ""

    def tag(self, key: str, moment: datetime) -> bool:
        """Set a tag of this function. Return whether it is new."""
        if key in self.tags:
            return False
        self.client.tag_resource(Resource=self.arn, Tags={key: f"{moment:%Y-%m-%dT%H:%M:%SZ}"})
        return True

    def untag(self, *keys: str) -> None:
        found = [key for key in keys if key in self.tags]
        if found:
            self.client.untag_resource(Resource=self.arn, TagKeys=found)

    def delete_groups(self) -> None:
        """Delete the groups with their instances. A group may be gone, or on its way. Raises the last error."""
        client, failure = self.boto3.client("autoscaling"), None
        for name in self.groups:
            try:
                client.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
            except client.exceptions.ClientError as error:
                failure = failure if "not found" in str(error) else error
        if failure:
            raise failure

    def tell(self, text: str) -> None:
        """Send a message if there is a topic. A failure does not change what happens to the nodes."""
        if "TOPIC" in os.environ:
            try:
                self.boto3.client("sns").publish(TopicArn=os.environ["TOPIC"], Subject=f"Cluster {self.cluster} is idle", Message=text)
            except Exception as error:
                print(f"message: {error}")


def handler(_event: object, context: Any) -> dict[str, Any]:
    """Delete the Auto Scaling groups if all nodes are idle and no hold keeps them. Return what was decided and why."""
    import boto3  # AWS Lambda provides it

    this, ec2 = Function(boto3, context.invoked_function_arn), boto3.client("ec2")
    held, nodes = this.held(), list(running(ec2, this.groups))
    if not nodes:
        if IDLE_SINCE in this.tags and this.ends:
            this.delete_groups()  # the rest, after a failure
        return {"idle": False, "why": "no nodes"}
    why, since = look(ec2, nodes, this.now)
    left = this.after - (this.now - since)
    if held or why or left > WARNING:
        this.untag(IDLE_SINCE, WARNED)
    elif left > timedelta():
        if this.ends and this.tag(WARNED, this.now):
            this.tell(warning(this.cluster, len(nodes), since, this.now + left))
    else:
        held = end(this, len(nodes), since)
    kept = held or why or (f"the nodes have been idle only since {_shown(since)}" if left > timedelta() else "")
    return {"idle": not kept, "why": kept or f"all nodes have been idle since {_shown(since)}"}


def end(this: Function, count: int, since: datetime) -> str:
    """End the nodes, unless a hold has just begun. Return until when it keeps the nodes, or an empty string."""
    this.read_tags()
    held = this.held()
    if held:
        return held
    if this.tag(IDLE_SINCE, since):
        this.tell(ended(this.cluster, count, since) if this.ends else trial(this.cluster, count, since))
    if this.ends:
        this.delete_groups()
    return ""


def look(ec2: Any, nodes: Sequence[Mapping[str, Any]], now: datetime) -> tuple[str, datetime]:
    """Return why the nodes are not idle, or an empty string, and since when all of them have been idle.

    Each node has the keys id, name, state and launched. A node is idle at the earliest since its launch.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outputs = pool.map(lambda node: console_output(ec2, node["id"]), nodes)
    found = [(node["name"], node["state"] == "running", idle_since(output, now), node["launched"]) for node, output in zip(nodes, outputs)]
    silent = [name for name, is_running, since, _launched in found if since is None or not is_running]
    if silent:
        more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        return f"{silent[0]}{more} did not report to be idle", now
    return "", max(max(since, launched) for _name, _is_running, since, launched in found if since)


def idle_since(output: str, now: datetime) -> datetime | None:
    """Return since when a node has been idle by its console, or None if it is in use, or if its last report is missing or old."""
    reports = REPORT.findall(without_kernel(output))
    since, reported = reports[-1] if reports else ("", "")
    return time_of(since) if since and abs(now - time_of(reported)) <= FRESH else None


def without_kernel(output: str) -> str:
    """Return an output without messages of the kernel, which can interrupt the lines of programs.

    Unprivileged processes can cause such messages with a text of their own, also with a carriage return, but not with a line break.
    """
    lines = (KERNEL.split(line, 1) for line in output.replace("\r", "").split("\n"))
    return "".join(parts[0] if len(parts) > 1 else f"{parts[0]}\n" for parts in lines)


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
            instance_id = instance["InstanceId"]
            yield {
                "id": instance_id,
                # Others can tag instances, too, and runs show the name
                "name": next(
                    (each["Value"] for each in instance["Tags"] if each["Key"] == "Name" and NAME.fullmatch(each["Value"])), instance_id
                ),
                "state": instance["State"]["Name"],
                "launched": instance["LaunchTime"],
            }


LOSES = "Files on the nodes' own disks, such as home directories, are deleted. Those on the shared storage are kept."


def warning(cluster: str, count: int, since: datetime, end: datetime) -> str:
    return (
        f"{_idle(cluster, count, since)}. If nobody uses the cluster, AWS terminates the nodes at about "
        f"{_shown(end)}. {LOSES} To keep the nodes for 4 hours, run ansible localhost -m deeplearning.cluster.idle_hold -a "
        f'"cluster={cluster} region={os.environ["AWS_REGION"]} name=me seconds=14400"'
    )


def ended(cluster: str, count: int, since: datetime) -> str:
    return (
        f"{_idle(cluster, count, since)}, and AWS terminates the nodes. {LOSES} To see what still costs "
        "money, run ansible-playbook deeplearning.cluster.info. To start nodes again, run ansible-playbook deeplearning.cluster.provision "
        "-e deeplearning_start_again=true"
    )


def trial(cluster: str, count: int, since: datetime) -> str:
    return f"{_idle(cluster, count, since)}. With deeplearning_idle_then: terminate, AWS would terminate the nodes."


def _idle(cluster: str, count: int, since: datetime) -> str:
    return f"Cluster {cluster} ({count} {'node' if count == 1 else 'nodes'}) has been idle since {_shown(since)}"


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
