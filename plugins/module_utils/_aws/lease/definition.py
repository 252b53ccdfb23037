# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The lease of a cluster's nodes: when it ends, and what AWS then does. Performs no I/O.

At the end of the lease, Amazon EventBridge Scheduler deletes the nodes' Auto Scaling groups with all their instances. A smaller group size
would not do: the groups protect their instances from scale-in, and the master's group has a minimum of 1. Sources: Amazon EC2 Auto Scaling
API Reference, DeleteAutoScalingGroup ("ForceDelete"); Amazon EC2 Auto Scaling User Guide, "Use instance scale-in protection"; EventBridge
Scheduler User Guide, "Using universal targets".

The schedules are recurring ones that start at the end of the lease. A failed deletion is repeated, and a controller that has not heard of
the end cannot start the nodes again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from ..instance_role.own_role import PATH
from ..node_names import NODE_TYPES, group_name
from ..plan.resources import Address, Found, Wanted
from ..regions import partition_of
from . import messages

LEASE = Address("node_lease", "main")
CORRECT = "Correct it, or leave it empty to have none"
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?")
LEAST, MOST = timedelta(minutes=15), timedelta(days=365)
# The deletions begin at the end of the lease, with a precision of one minute. AWS retries a failed one for RETRIED, and repeats them at
# each INTERVAL during REPEATED.
RETRIED, INTERVAL, REPEATED = timedelta(minutes=1), timedelta(minutes=5), timedelta(days=1)
# After the schedules have changed, calls that AWS has already begun may still arrive for so long.
LATE = RETRIED + timedelta(minutes=1)
DESCRIPTION = "For the end of the nodes of the training cluster {cluster} (lease: {terms})"
TERMS = re.compile(r"\(lease: (.+)\)$")


@dataclass(frozen=True)
class Terms:
    """The lease as the definition describes it: a duration, or a fixed end."""

    duration: timedelta | None = None
    fixed_end: datetime | None = None

    def __str__(self) -> str:
        """Return the text by which a later run recognizes the lease. The same lease in other words has the same text."""
        return iso(self.fixed_end) if self.fixed_end else f"{(self.duration or timedelta()).total_seconds():.0f} s"

    def end(self, now: datetime, least: timedelta = timedelta()) -> datetime:
        """Return the end of a lease that begins now. A lease with a duration lasts at least `least`."""
        return self.fixed_end or (now + max(self.duration or timedelta(), least)).replace(microsecond=0)


def parse(text: str) -> Terms:
    """Return the lease that a text such as `8h`, `1d12h` or `2026-12-01T18:00Z` describes. Raises ValueError."""
    lasts = duration(text)
    if lasts is not None:
        if not LEAST <= lasts <= MOST:
            raise ValueError(f"{text!r} is not from 15m to 365d. Choose another duration")
        return Terms(lasts)
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a duration such as 8h or 1d12h nor a time such as 2026-12-01T18:00Z. {CORRECT}") from None
    if end.tzinfo is None:
        raise ValueError(f"{text!r} is a time without a time zone. For UTC, append Z, and for another zone its offset, such as +01:00")
    return Terms(fixed_end=end.astimezone(timezone.utc).replace(microsecond=0))


def duration_of(terms: str | None) -> float | None:
    """Return the seconds of a lease with a duration by the text of its terms, or None for another lease. Others can set this text."""
    found = re.fullmatch(r"(\d+) s", terms or "", re.ASCII)
    return float(found[1]) if found else None


def duration(text: str) -> timedelta | None:
    """Return the duration that a text such as `1d12h` describes, or None if it describes none."""
    found = DURATION.fullmatch(text.replace(" ", ""))
    if not found or not any(found.groups()):
        return None
    days, hours, minutes = (int(each or 0) for each in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes)


def iso(moment: datetime) -> str:
    return f"{moment.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def end_of(found: Found) -> datetime | None:
    """Return when an existing lease ends: the earliest time at which AWS deletes a group. Return None if AWS deletes no group."""
    ends = [datetime.fromisoformat(end) for end in found.properties["ends"].values() if end]
    return min(ends, default=None)


def wanted(
    terms: Terms,
    end: datetime,
    now: datetime,
    cluster: str,
    region: str,
    tags: Callable[[Address], dict[str, str]],
    permissions_boundary: str | None,
    topic: str | None,
) -> Wanted:
    """Return the lease: the role under which AWS deletes the groups, and the schedules that do it and tell the topic, if any."""
    name = schedule_group(cluster)
    return Wanted(
        LEASE,
        {
            "name": role_name(cluster, region),
            "trust": trust_policy(region, name),
            "permissions_boundary": permissions_boundary,
            "policy": policy(cluster, region, topic),
            "tags": tags(LEASE),
            "lease": str(terms),
            "ends": {group: iso(end) for group in NODE_TYPES},
            "calls": calls(cluster, region, terms, end, now, topic),
        },
    )


def schedule_group(cluster: str) -> str:
    return f"{cluster}-nodes-lease"


def role_name(cluster: str, region: str) -> str:
    """Return the name of the role. It begins like the name of the nodes' role, for which operators have permissions."""
    return f"{schedule_group(cluster)}-{region}"


def role_in(arn: str) -> str:
    """Return the name of a role of the collection, or the whole ARN of another role."""
    _account, path, name = arn.partition(f":role{PATH}")
    return name if path else arn


def calls(cluster: str, region: str, terms: Terms, end: datetime, now: datetime, topic: str | None) -> dict[str, dict[str, Any]]:
    """Return the API calls of the lease by the names of their schedules: the deletions of the groups, and the messages that are still due.

    They have a form that can be compared with existing schedules.
    """

    def call(action: str, expression: str, arguments: dict[str, Any], repeated: float | None = None) -> dict[str, Any]:
        return {
            "state": "ENABLED",
            "expression": expression,
            "zone": "UTC",
            "window": {"Mode": "OFF"},
            "key": None,
            "repeated": repeated,
            "retry": {"MaximumEventAgeInSeconds": round(RETRIED.total_seconds()), "MaximumRetryAttempts": 3},
            "target": f"arn:{partition_of(region).name}:scheduler:::aws-sdk:{action}",
            "role": role_name(cluster, region),
            "input": arguments,
        }

    rate = f"rate({INTERVAL // timedelta(minutes=1)} minutes)"
    found = {}
    for group in NODE_TYPES:
        arguments = {"AutoScalingGroupName": group_name(cluster, group), "ForceDelete": True}
        found[group] = call("autoscaling:deleteAutoScalingGroup", rate, arguments, REPEATED.total_seconds())
    told = messages.inputs(cluster, region, end, bool(terms.fixed_end), topic) if topic else {}
    due = {name: end - messages.BEFORE[name] for name in told}
    return {**found, **{name: call("sns:publish", messages.at(due[name]), told[name]) for name in told if due[name] > now}}


def found_call(schedule: Mapping[str, Any]) -> dict[str, Any]:
    target, end = schedule["Target"], schedule.get("EndDate")
    return {
        "state": schedule["State"],
        "expression": schedule["ScheduleExpression"],
        "zone": schedule.get("ScheduleExpressionTimezone"),
        "window": schedule["FlexibleTimeWindow"],
        "key": schedule.get("KmsKeyArn"),
        "repeated": (end - schedule["StartDate"]).total_seconds() if end and "StartDate" in schedule else None,
        "retry": target.get("RetryPolicy"),
        "target": target["Arn"],
        "role": role_in(target["RoleArn"]),
        "input": json.loads(target["Input"]),
    }


def schedule(cluster: str, terms: str, start: datetime | None, call: Mapping[str, Any], role_arn: str) -> dict[str, Any]:
    """Return a schedule for the API, which repeats its call if it has a start. AWS replaces the whole schedule, so this is everything."""
    dates = {"StartDate": start, "EndDate": start + timedelta(seconds=call["repeated"])} if start else {}
    return {
        "Description": DESCRIPTION.format(cluster=cluster, terms=terms),
        "ScheduleExpression": call["expression"],
        "ScheduleExpressionTimezone": call["zone"],
        **dates,
        "State": call["state"],
        "ActionAfterCompletion": "NONE",
        "FlexibleTimeWindow": call["window"],
        "Target": {
            "Arn": call["target"],
            "RoleArn": role_arn,
            "Input": json.dumps(call["input"]),
            "RetryPolicy": call["retry"],
        },
    }


def trust_policy(region: str, name: str) -> dict[str, Any]:
    """Return the trust policy, which lets only schedules of this schedule group use the role."""
    source = partition_of(region).arn("scheduler", f"schedule-group/{name}", region, "*")
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "scheduler.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {"ArnLike": {"aws:SourceArn": source}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def policy(cluster: str, region: str, topic: str | None) -> dict[str, Any]:
    """Return the policy, which allows only the deletion of the cluster's own groups, and messages to the topic, if there is one.

    A condition on tags would turn repeated deletions into denied calls, on which accounts have alarms.
    """
    names = [f"autoScalingGroup:*:autoScalingGroupName/{group_name(cluster, group)}" for group in NODE_TYPES]
    statement = {
        "Sid": "EndNodes",
        "Effect": "Allow",
        "Action": "autoscaling:DeleteAutoScalingGroup",
        "Resource": [partition_of(region).arn("autoscaling", name, region, "*") for name in names],
    }
    return {"Version": "2012-10-17", "Statement": [statement, *messages.statements(topic)]}
