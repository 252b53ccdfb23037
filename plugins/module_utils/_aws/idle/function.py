# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The AWS Lambda function that ends idle nodes. Its code is this file and `messages.py`, so it imports nothing else of the collection.

Idle nodes say so on their serial consoles, which AWS reads without permissions for the nodes. A node that says nothing counts as in use.
"""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Collection, Iterator, Mapping, NamedTuple, Sequence

from . import messages

# Tags of the function: until when nodes are kept, whatever they report, since when they have been idle, that people have been warned, what
# the function has found, and when and why the last message could not be sent.
HOLD, IDLE_SINCE, WARNED = "deeplearning:hold:", "deeplearning:idle-since", "deeplearning:idle-warned"
VERDICT, FAILURE = "deeplearning:idle-verdict", "deeplearning:idle-failure"
# What a node prints on its console (`_hosts/idle_reports/report.py`): since when it is idle or that it is in use, and the present time.
TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
REPORT = re.compile(rf"deeplearning: (?:idle since ({TIME})|in use), reported at ({TIME})\.")
# The name of a worker ends with its number, which others can set.
NUMBER = re.compile(r"[0-9]{1,5}")
KERNEL = re.compile(r"\[ *\d+\.\d+\] ")
# Reports that are older tell nothing about the present. Nodes report at least every 10 minutes.
FRESH = timedelta(minutes=20)
SILENCE, REMINDED = timedelta(hours=1), timedelta(days=1)
# The topic is told so long before the end.
WARNING = timedelta(minutes=10)
# A hold that lasts longer is none. The clock of those who set it may be ahead.
LONGEST_HOLD, AHEAD = timedelta(days=7), timedelta(minutes=5)
# Calls of the function can be late, and the clocks of nodes are corrected now and then.
TOLERANCE = timedelta(minutes=1)
NEVER = datetime.fromtimestamp(0, timezone.utc)
# The verdict is written anew after this time even if it is the same, so that its age shows whether AWS still calls the function.
REWRITTEN = timedelta(hours=1)
# The function reads so many consoles at once, and begins to read as many not before PACE seconds later. EC2 allows an account and a region
# 100 requests for consoles at once, and then 20 per second (EC2 Developer Guide, "Request throttling"). Others need some, too.
AT_ONCE, PACE = 5, 0.5
# The states of a node and of the nodes together. The first of them that any node has is that of all. Nodes are silent if they have been
# unreported for long. The console of a node that has never been configured shows no report.
IN_USE, SILENT, UNREPORTED, UNCONFIGURED, IDLE, NO_NODES = "in_use", "silent", "unreported", "unconfigured", "idle", "no_nodes"
STATES = (IN_USE, SILENT, UNREPORTED, UNCONFIGURED, IDLE, NO_NODES)


class Observation(NamedTuple):
    """The state of a node, since when, its name and its ID."""

    state: str
    since: datetime
    node: str
    instance_id: str


class Verdict(NamedTuple):
    """The state of the nodes, since when, and when the function has written this.

    If the state is because of one node, this contains its name and ID. `told` is when people last heard of a silent node.
    """

    state: str
    since: datetime
    written: datetime
    node: str = ""
    instance_id: str = ""
    told: datetime = NEVER

    def __str__(self) -> str:
        times = [self.state, iso(self.since), iso(self.written)]
        return " ".join(filter(None, (*times, self.node, self.instance_id, "" if self.told == NEVER else iso(self.told))))


PATTERN = re.compile(rf"({'|'.join(STATES)}) ({TIME}) ({TIME})(?: ([\w-]{{1,64}}) (i-[0-9a-f]+))?(?: ({TIME}))?", re.ASCII)


def verdict_in(tags: Mapping[str, str], now: datetime) -> Verdict | None:
    """Return the last verdict in the tags of the function, or None. Others can set tags, too."""
    found = PATTERN.fullmatch(tags.get(VERDICT, ""))
    if not found:
        return None
    state, since, written, node, instance_id, told = found.groups(default="")
    verdict = Verdict(state, time_of(since), time_of(written), node, instance_id, time_of(told))
    return verdict if NEVER < verdict.since <= verdict.written <= now + AHEAD and verdict.told <= verdict.written else None


def verdict_of(found: Sequence[Observation], last: Verdict | None, now: datetime, is_held: bool) -> Verdict:
    """Return what follows from the states of the nodes and from the last verdict. While a hold keeps the nodes, none is silent."""
    (state, since, node, instance_id), told = decisive(found, last, now), NEVER
    if last:
        told = last.told
        lasts = (UNREPORTED if last.state == SILENT else last.state, last.instance_id) == (state, instance_id)
        if lasts and (state != IDLE or abs(since - last.since) < TOLERANCE):
            since = last.since
    if state == UNREPORTED and now - since >= SILENCE and not is_held:
        state = SILENT
    return Verdict(state, min(since, now), now, node, instance_id, told)


def decisive(found: Sequence[Observation], last: Verdict | None, now: datetime) -> Observation:
    """Return the state of all nodes, and the node because of which it is so: that of the last verdict as long as its state lasts."""
    state = min((each.state for each in found), key=STATES.index, default=NO_NODES)
    those = [each for each in found if each.state == state]
    if state in (IDLE, NO_NODES):
        return Observation(state, max((each.since for each in those), default=now), "", "")
    former = last.instance_id if last else ""
    first = min(those, key=lambda each: (each.instance_id != former, each))
    if state == UNCONFIGURED and last and former == first.instance_id and last.state != UNCONFIGURED:
        return first._replace(state=UNREPORTED)  # other output has removed its reports
    return first


def holds_in(tags: Mapping[str, str], now: datetime) -> dict[str, datetime]:
    ends = {key[len(HOLD) :]: time_of(value) for key, value in tags.items() if key.startswith(HOLD)}
    return {name: end for name, end in ends.items() if now < end <= now + LONGEST_HOLD + AHEAD}


def failure_in(tags: Mapping[str, str]) -> tuple[datetime, str] | None:
    """Return when the last message could not be sent, and the code of the error. Return None if it could."""
    found = re.fullmatch(rf"({TIME}) ([\w.]{{1,64}})", tags.get(FAILURE, ""), re.ASCII)
    return (time_of(found[1]), found[2]) if found else None


def iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def time_of(text: str) -> datetime:
    """Return the time that a tag or a report contains. A text that is no time means the past."""
    if not re.fullmatch(TIME, text):
        return NEVER
    try:
        return max(NEVER, datetime.fromisoformat(text.replace("Z", "+00:00")))
    except ValueError:
        return NEVER


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

    def is_held(self) -> bool:
        """Return whether a hold keeps the nodes. Remove holds that have ended."""
        holds = holds_in(self.tags, self.now)
        self.untag(*(key for key in self.tags if key.startswith(HOLD) and key[len(HOLD) :] not in holds))
        return bool(holds)

    def conclude(self, found: Sequence[Observation], is_held: bool) -> Verdict:
        """Return the verdict. Write it if it is new or the last one is old, and tell once a day of nodes that report nothing.

        A failure to write it does not change what happens to the nodes.
        """
        last = verdict_in(self.tags, self.now)
        verdict = verdict_of(found, last, self.now, is_held)
        is_new = verdict.state == UNCONFIGURED and self.now - verdict.since >= SILENCE and not is_held
        tells = (is_new or verdict.state == SILENT) and self.now - verdict.told >= REMINDED
        if tells:
            verdict = verdict._replace(told=self.now)
        if last is None or verdict._replace(written=last.written) != last or self.now - last.written >= REWRITTEN:
            try:
                self.client.tag_resource(Resource=self.arn, Tags={VERDICT: str(verdict)})
            except Exception as error:
                print(f"verdict: {error}")
                return verdict
        if tells:
            advice = messages.NEVER if is_new else messages.unreachable(verdict.node, verdict.instance_id, os.environ["AWS_REGION"])
            self.tell_silence(found, verdict, advice)
        return verdict

    def tell_silence(self, found: Sequence[Observation], verdict: Verdict, advice: str) -> None:
        others = sum(each.state in (UNREPORTED, UNCONFIGURED) for each in found) - 1
        self.tell(*messages.silent(self.cluster, verdict.node, others, verdict.since, advice))

    def tag(self, key: str, moment: datetime, since: datetime) -> bool:
        """Set a tag of this function. Return whether it is new: one that is older than the idleness, or of the future, others have set."""
        if since <= time_of(self.tags.get(key, "")) <= self.now:
            return False
        self.client.tag_resource(Resource=self.arn, Tags={key: iso(moment)})
        return True

    def has_just_warned(self) -> bool:
        return self.now - time_of(self.tags.get(WARNED, "")) < WARNING - TOLERANCE

    def untag(self, *keys: str) -> None:
        found = [key for key in keys if key in self.tags]
        if found:
            self.client.untag_resource(Resource=self.arn, TagKeys=found)

    def delete_groups(self, used: Collection[str]) -> None:
        """Delete the groups with their instances. `used` are those that have any. A group may be gone.

        The others are the first: if this function is interrupted, there still are idle nodes, so the next call repeats it. A group that
        cannot be deleted does not keep the others.
        """
        client, failure = self.boto3.client("autoscaling"), None
        for name in sorted(self.groups, key=used.__contains__):
            try:
                client.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
            except client.exceptions.ClientError as error:
                failure = failure if "not found" in str(error) else error
        if failure:
            raise failure

    def tell(self, subject: str, text: str) -> None:
        """Send a message if there is a topic, and keep a failure in a tag. A failure does not change what happens to the nodes."""
        if "TOPIC" not in os.environ:
            return
        code = ""
        try:
            self.boto3.client("sns").publish(TopicArn=os.environ["TOPIC"], Subject=subject[:99], Message=text)
        except Exception as error:
            print(f"message: {error}")
            code = getattr(error, "response", {}).get("Error", {}).get("Code") or type(error).__name__
        with suppress(Exception):
            if code:
                self.client.tag_resource(Resource=self.arn, Tags={FAILURE: f"{iso(self.now)} {code}"})
            else:
                self.untag(FAILURE)


def handler(_event: object, context: Any) -> dict[str, Any]:
    """Delete the Auto Scaling groups if all nodes are idle and no hold keeps them. Return the verdict."""
    import boto3  # AWS Lambda provides it
    from botocore.config import Config

    this = Function(boto3, context.invoked_function_arn)
    ec2 = boto3.client("ec2", config=Config(retries={"mode": "adaptive", "max_attempts": 10}))
    is_held, nodes = this.is_held(), list(running(ec2, this.groups))
    verdict = this.conclude(look(ec2, nodes, this.now, verdict_in(this.tags, this.now)), is_held)
    left = this.after - (this.now - verdict.since)
    if not nodes:
        pass  # the tags keep the cause of their end
    elif is_held or verdict.state != IDLE or left > WARNING:
        this.untag(IDLE_SINCE, WARNED)
    elif this.ends and this.tag(WARNED, this.now, verdict.since):
        this.tell(*messages.warning(this.cluster, os.environ["AWS_REGION"], len(nodes), verdict.since, this.now + max(left, WARNING)))
    elif left <= timedelta() and not (this.ends and this.has_just_warned()):
        end(this, nodes, verdict.since)
    return {"verdict": str(verdict)}


def end(this: Function, nodes: Sequence[Mapping[str, Any]], since: datetime) -> None:
    """End the nodes, unless a hold has just begun, or a run has just removed the time of the warning to launch the nodes again."""
    warned = this.tags.get(WARNED)
    this.read_tags()
    if this.is_held() or this.tags.get(WARNED) != warned:
        return
    if this.tag(IDLE_SINCE, since, since):
        this.tell(*(messages.ended if this.ends else messages.trial)(this.cluster, len(nodes), since))
    if this.ends:
        this.delete_groups({node["group"] for node in nodes})


def look(ec2: Any, nodes: Sequence[Mapping[str, Any]], now: datetime, last: Verdict | None) -> list[Observation]:
    """Return what each node reports, until one is in use. Each node has the keys id, name, state and launched.

    The node because of which the last verdict was so is the first.
    """
    found: list[Observation] = []
    order = sorted(nodes, key=lambda node: not last or node["id"] != last.instance_id)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while len(found) < len(order) and not any(each.state == IN_USE for each in found):
            if found:
                time.sleep(PACE)
            found += pool.map(lambda node: observe(ec2, node, now), order[len(found) : len(found) + AT_ONCE])
    return found


def observe(ec2: Any, node: Mapping[str, Any], now: datetime) -> Observation:
    """Return what a node reports. It is unreported if its console cannot be read, so that no node ends, and people are told."""
    try:
        state, since = state_of(console_output(ec2, node["id"]) if node["state"] == "running" else "", node["launched"], now)
    except Exception as error:
        print(f"{node['id']}: {error}")
        state, since = UNREPORTED, now
    return Observation(state, since, node["name"], node["id"])


def state_of(output: str, launched: datetime, now: datetime) -> tuple[str, datetime]:
    """Return the state of a node by its console, and since when. It is idle at the earliest since its launch.

    Only the last report counts. A node is in use since this report, as far as is known. Without a current report, it is unreported since
    now, because other output can have removed the reports of a node from its console. Without any since its launch, it is unconfigured.
    """
    reports = REPORT.findall(without_kernel(output))
    since, reported = reports[-1] if reports else ("", "")
    moment = time_of(reported)
    if moment < launched:
        return UNCONFIGURED, now
    if abs(now - moment) > FRESH:  # old, or by a clock that is wrong
        return UNREPORTED, now
    return (IDLE, max(time_of(since), launched)) if since else (IN_USE, moment)


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
            tags = {each["Key"]: each["Value"] for each in instance["Tags"]}
            group, number = tags["aws:autoscaling:groupName"], tags.get("deeplearning:number", "")
            worker = f"{group[:-1]}{number}" if NUMBER.fullmatch(number) else instance["InstanceId"]
            yield {
                "id": instance["InstanceId"],
                "group": group,
                "name": worker if group.endswith("-workers") else group,
                "state": instance["State"]["Name"],
                "launched": instance["LaunchTime"],
            }
