# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Turns scaling activities and the states of instances into events of a cluster, and nodes with their lives. Performs no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ..instances import market_of
from ..node_group.activities import FAILED
from ..node_group.former_nodes import LAUNCHES, LEAVES

LAUNCH, LAUNCH_FAILED, TERMINATION = "launch", "failed_launch", "termination"
AUTO_SCALING, CLOUD_TRAIL, EC2 = "auto_scaling", "cloudtrail", "ec2"
# The end of the reason that EC2 gives for an instance's state, such as `User initiated (2026-11-29 09:00:00 GMT)`.
ENDED_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)$")
ENDED = ("shutting-down", "terminated")


@dataclass
class Event:
    """A fact about a cluster that AWS has recorded. `time` is in seconds since 1970.

    `action` is one of the constants of this file, or the name of an API call or an event of CloudTrail. `resources` contains names and IDs.
    `cause` is AWS's text. `error` is the error code of a call that failed. `hourly` is by how much the event changes the price per hour.
    """

    time: float
    source: str
    action: str
    resources: list[str]
    group: str = ""
    caller: str = ""
    cause: str = ""
    error: str = ""
    hourly: float | None = None


@dataclass
class LifeOfNode:
    """A node, from its launch to its end, as far as AWS tells. Times are in seconds since 1970. The type is empty if it is unknown."""

    instance_id: str
    group: str
    instance_type: str = ""
    market: str = ""
    zone: str = ""
    launched_at: float | None = None
    ended_at: float | None = None
    running: bool = False
    hourly: float | None = field(default=None)


def events_of(group: str, activities: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield the launches, failed launches and terminations among the scaling activities of a group."""
    for activity in activities:
        description, time = activity.get("Description", ""), activity["StartTime"].timestamp()
        found = LAUNCHES.match(description) or LEAVES.match(description)
        if activity["StatusCode"] in FAILED:
            reason = activity.get("StatusMessage") or description
            if not LEAVES.match(description):
                yield Event(time, AUTO_SCALING, LAUNCH_FAILED, [found[1]] if found else [], group, cause=reason)
        elif found:
            action = LAUNCH if LAUNCHES.match(description) else TERMINATION
            yield Event(time, AUTO_SCALING, action, [found[1]], group, cause=activity.get("Cause", ""))


def ends_of(instances: Iterable[Mapping[str, Any]], groups: Mapping[str, str]) -> Iterator[Event]:
    """Yield the ends of instances, which EC2 describes for about an hour. `groups` maps instance IDs to groups."""
    for instance in instances:
        found = ENDED_AT.search(instance.get("StateTransitionReason", ""))
        if instance["State"]["Name"] in ENDED and found:
            moment = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
            cause, name = instance.get("StateReason", {}).get("Message", ""), instance["InstanceId"]
            yield Event(moment.timestamp(), EC2, TERMINATION, [name], groups.get(name, ""), cause=cause)


def nodes_of(events: Iterable[Event], instances: Iterable[Mapping[str, Any]], groups: Mapping[str, str]) -> dict[str, LifeOfNode]:
    """Return the nodes by instance ID, from the events of the groups and from EC2's descriptions of instances."""
    nodes: dict[str, LifeOfNode] = {}
    for event in events:
        for name in event.resources:
            node = nodes.setdefault(name, LifeOfNode(name, event.group))
            if event.action == LAUNCH:
                node.launched_at = event.time
    for each in instances:
        node = nodes.setdefault(each["InstanceId"], LifeOfNode(each["InstanceId"], groups[each["InstanceId"]]))
        node.instance_type, node.market = each["InstanceType"], market_of(each)
        node.zone, node.launched_at = each["Placement"]["AvailabilityZone"], each["LaunchTime"].timestamp()
        node.running = each["State"]["Name"] not in ENDED
    return nodes


def end_lives(nodes: Mapping[str, LifeOfNode], ends: Iterable[Event]) -> None:
    """Set when each node ended: at the first event that ends it."""
    for event in sorted(ends, key=lambda event: event.time):
        for name in event.resources:
            if name in nodes and nodes[name].ended_at is None:
                nodes[name].ended_at = event.time
