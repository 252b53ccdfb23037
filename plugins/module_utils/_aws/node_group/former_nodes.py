# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds former nodes of the cluster in the scaling activities of its Auto Scaling groups."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any

from ..client import ClientError
from ..error_codes import error_code
from ..instances import ALIVE
from ..node_service import Reader
from . import membership_tags

# Prefixes of activity descriptions, as documented under "Verify a scaling activity" in the Amazon EC2 Auto Scaling User Guide
LAUNCHES = re.compile(r"Launching a new EC2 instance: (i-[0-9a-f]{8,17})\b")
LEAVES = re.compile(r"(?:Terminating|Detaching) EC2 instance: (i-[0-9a-f]{8,17})\b")


def activities(reader: Reader, group: str, since: datetime) -> Iterator[Mapping[str, Any]]:
    """Yield the group's scaling activities, or nothing if the group does not exist.

    Activities before the time `since` are omitted if they failed. During a shortage of capacity, a group fails to launch an instance again
    and again, and AWS lists activities for six weeks.
    """
    moment = since.isoformat()
    ended = [{"Name": "Status", "Values": ["Successful", "Cancelled"]}, {"Name": "StartTimeUpperBound", "Values": [moment]}]
    pages = reader.client("autoscaling").get_paginator("describe_scaling_activities")
    try:
        for filters in ([{"Name": "StartTimeLowerBound", "Values": [moment]}], ended):
            for page in pages.paginate(AutoScalingGroupName=group, IncludeDeletedGroups=True, Filters=filters):
                yield from page["Activities"]
    except ClientError as error:
        if error_code(error) != "ValidationError" or "not found" not in str(error):
            raise


def running_instances(reader: Reader) -> set[str]:
    alive = [*membership_tags.filters(reader.cluster), {"Name": "instance-state-name", "Values": list(ALIVE)}]
    reservations = reader.retrieve("ec2", "describe_instances", "Reservations", Filters=alive)
    return {instance["InstanceId"] for reservation in reservations for instance in reservation["Instances"]}


def former_instances(found: Iterable[Mapping[str, Any]], since: datetime, running: Collection[str]) -> set[str]:
    """Return the IDs of the instances that left their Auto Scaling groups at or after the time `since`.

    `found` contains the scaling activities. If a group neither terminates nor replaces an instance, no scaling activity records the
    termination of the instance. Therefore, the result also includes instances that a group launched and that are no longer running.
    """
    launched, left, left_before = set[str](), set[str](), set[str]()
    for activity in found:
        description = activity.get("Description", "")
        if match := LAUNCHES.match(description):
            launched.add(match[1])
        elif match := LEAVES.match(description):
            (left if activity["StartTime"] >= since else left_before).add(match[1])
    return left | (launched - left_before - set(running))


def _activities(found: Iterable[Mapping[str, Any]]) -> tuple[dict[str, datetime], dict[str, tuple[datetime, str]]]:
    """Return launch times and departures, keyed by instance ID. A departure is a time and the cause that AWS reports."""
    launches, leaves = dict[str, datetime](), dict[str, tuple[datetime, str]]()
    for activity in found:
        description = activity.get("Description", "")
        if match := LAUNCHES.match(description):
            launches[match[1]] = activity["StartTime"]
        elif match := LEAVES.match(description):
            leaves[match[1]] = activity["StartTime"], activity.get("Cause", "")
    return launches, leaves


def departures(found: Iterable[Mapping[str, Any]], former: AbstractSet[str], running: Collection[str]) -> list[dict[str, Any]]:
    """Return `instance_id`, `cause`, `replacement`, `launched_at` and `left_at` for each former instance of one group, by departure.

    `cause` is the cause that AWS reports, or an empty string if no scaling activity records the termination. `replacement` is a running
    instance that the group launched after the departure, or an empty string if there is none yet. No two former instances have the same
    replacement. Instances come last if the group has not recorded their departure yet. A time is None if no scaling activity tells it.
    """
    launches, leaves = _activities(found)
    later = sorted((moment, each) for each, moment in launches.items() if each in running and each not in former)
    result = []
    for instance in sorted(leaves.keys() & former, key=lambda each: (leaves[each][0], each)):
        moment, cause = leaves[instance]
        launched, replacement = next((launch for launch in later if launch[0] >= moment), (moment, ""))
        if replacement:
            later.remove((launched, replacement))
        result.append(_departure(instance, cause, replacement, launches.get(instance), moment))
    # Until a group records that an instance has left, the group does not launch a replacement.
    unnoticed = sorted((moment, each) for each, moment in launches.items() if each in former and each not in leaves)
    return result + [_departure(each, "", "", moment, None) for moment, each in unnoticed]


def _departure(instance: str, cause: str, replacement: str, launched: datetime | None, left: datetime | None) -> dict[str, Any]:
    times = {"launched_at": launched and launched.timestamp(), "left_at": left and left.timestamp()}
    return {"instance_id": instance, "cause": cause, "replacement": replacement, **times}
