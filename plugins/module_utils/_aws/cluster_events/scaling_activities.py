# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Turns scaling activities and the states of instances into events of a cluster, and nodes with their lives. Performs no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Mapping, Tuple

from ..instances import market_of
from ..node_group.former_nodes import LAUNCHES, LEAVES
from ..node_group.insufficient_capacity import FAILED
from ..node_group.membership_tags import number_of
from ..node_names import MASTER, MASTER_NUMBER, node_name

LAUNCH, LAUNCH_FAILED, STOP, TERMINATION, DETACHMENT = "launch", "failed_launch", "stop", "termination", "detachment"
AUTO_SCALING, CLOUD_TRAIL, EC2 = "auto_scaling", "cloudtrail", "ec2"
# The end of the reason that EC2 gives for an instance's state, such as `User initiated (2026-11-29 09:00:00 GMT)`.
ENDED_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)$")
# The states of instances that cost nothing by the hour, and what has led to them.
ENDED = {"stopping": STOP, "stopped": STOP, "shutting-down": TERMINATION, "terminated": TERMINATION}
# Calls that create and delete groups, and calls and events in CloudTrail that end or stop instances.
CREATE_GROUP, DELETE_GROUP = "CreateAutoScalingGroup", "DeleteAutoScalingGroup"
ENDS = ("StopInstances", "TerminateInstances", "TerminateInstanceInAutoScalingGroup", "BidEvictedEvent")
# A group of nodes, and an instance of the group as EC2 describes it.
Member = Tuple[str, Mapping[str, Any]]


@dataclass
class Event:
    """A fact about a cluster that AWS has recorded. `time` is in seconds since 1970.

    `action` is one of the constants of this file, or the name of an API call or an event of CloudTrail. `resources` contains names and IDs.
    `cause` is AWS's text. `ended_by` is `lease` or `idle`: what has let AWS end nodes, or what a schedule is for. `error` is the error code
    of a call that failed. `hourly` is by how much the event changes the price per hour. `until` is when the lease ends that a call sets.
    """

    time: float
    source: str
    action: str
    resources: list[str]
    group: str = ""
    caller: str = ""
    cause: str = ""
    ended_by: str = ""
    error: str = ""
    hourly: float | None = None
    until: float | None = None

    @property
    def ends_nodes(self) -> bool:
        """Return whether the event ends nodes, or makes them leave the cluster."""
        return self.action in (STOP, TERMINATION, DETACHMENT) or (self.action in ENDS and not self.error)


@dataclass
class LifeOfNode:
    """A node, from its launch to its end, as far as AWS tells. Times are in seconds since 1970. Name and type are empty if unknown.

    `cause` is EC2's reason for the end.
    """

    instance_id: str
    group: str
    name: str = ""
    instance_type: str = ""
    market: str = ""
    zone: str = ""
    launched_at: float | None = None
    ended_at: float | None = None
    running: bool = False
    cause: str = ""
    hourly: float | None = None


def events_of(group: str, activities: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    for activity in activities:
        description, time = activity.get("Description", ""), activity["StartTime"].timestamp()
        found = LAUNCHES.match(description) or LEAVES.match(description)
        if activity["StatusCode"] in FAILED:
            reason = activity.get("StatusMessage") or description
            if not LEAVES.match(description):
                yield Event(time, AUTO_SCALING, LAUNCH_FAILED, [found[1]] if found else [], group, cause=reason)
        elif found:
            action = LAUNCH if LAUNCHES.match(description) else DETACHMENT if description.startswith("Detaching") else TERMINATION
            yield Event(time, AUTO_SCALING, action, [found[1]], group, cause=activity.get("Cause", ""))


def ends_of(members: Iterable[Member], known: Iterable[Event]) -> Iterator[Event]:
    """Yield when instances stopped, or ended, which EC2 describes for about an hour, unless `known` events contain them."""
    ended = {name for event in known if event.ends_nodes for name in event.resources}
    for group, instance in members:
        found, name = ENDED_AT.search(instance.get("StateTransitionReason", "")), instance["InstanceId"]
        action = ENDED.get(instance["State"]["Name"])
        if found and action and name not in ended:
            moment = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
            cause = instance.get("StateReason", {}).get("Message", "")
            yield Event(moment.timestamp(), EC2, action, [name], group, cause=cause)


def name_of(cluster: str, group: str, instance: Mapping[str, Any]) -> str:
    """Return the name of a node from the tags of its instance, or an empty string if a worker has no valid number."""
    number = MASTER_NUMBER if group == MASTER else number_of(instance)
    return node_name(cluster, group, number) if number else ""


def nodes_of(cluster: str, events: Iterable[Event], members: Iterable[Member]) -> dict[str, LifeOfNode]:
    """Return the nodes by instance ID, from the events of the groups and from EC2's descriptions of instances.

    Instances whose launch has failed were never in service, and are no nodes.
    """
    nodes: dict[str, LifeOfNode] = {}
    told = list(events)
    failed = {name for event in told if event.action == LAUNCH_FAILED for name in event.resources}
    for event in told:
        for name in set(event.resources) - failed:
            node = nodes.setdefault(name, LifeOfNode(name, event.group, name_of(cluster, event.group, {})))
            if event.action == LAUNCH:
                node.launched_at = event.time
    for group, each in members:
        node = nodes.setdefault(each["InstanceId"], LifeOfNode(each["InstanceId"], group))
        node.name, node.instance_type, node.market = name_of(cluster, group, each), each["InstanceType"], market_of(each)
        node.zone, node.launched_at = each["Placement"]["AvailabilityZone"], each["LaunchTime"].timestamp()
        node.running = each["State"]["Name"] not in ENDED
        node.cause = "" if node.running else each.get("StateReason", {}).get("Message", "")
    return nodes


def set_ends(nodes: Mapping[str, LifeOfNode], events: Iterable[Event]) -> None:
    """Set when each node ended: at the first event that ends it. `events` are in order."""
    for event in events:
        for name in event.resources if event.ends_nodes else ():
            if name in nodes and nodes[name].ended_at is None:
                nodes[name].ended_at = event.time


def set_causes(events: Iterable[Event], groups: Mapping[str, str]) -> None:
    """Set what has let AWS terminate the nodes of deleted groups. `events` are in order, and `groups` contains groups by their names."""
    deleted: dict[str, str] = {}
    for event in events:
        if event.action in (CREATE_GROUP, DELETE_GROUP) and not event.error:
            deleted.update({groups[name]: event.ended_by for name in event.resources if name in groups})
        if event.action == TERMINATION:
            event.ended_by = deleted.get(event.group, "")


def set_differences(events: Iterable[Event], nodes: Mapping[str, LifeOfNode]) -> None:
    """Set by how much the events, in order, change the price per hour: the launch of a node, and the first event that ends it."""
    ended = set[str]()
    for event in events:
        sign = 1 if event.action == LAUNCH else -1 if event.ends_nodes else 0
        prices = [nodes[name].hourly for name in event.resources if name in nodes and name not in ended]
        known = [price for price in prices if price is not None]
        if sign and known:
            event.hourly = sign * sum(known)
        if sign < 0:
            ended.update(event.resources)
