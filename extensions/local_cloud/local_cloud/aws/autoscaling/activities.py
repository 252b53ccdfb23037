"""Scaling activities: what a group did, why, and how it went."""

from __future__ import annotations

import json
import uuid
from typing import Any

from moto.autoscaling.models import AutoScalingBackend
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult
from moto.core.utils import utcnow

from ..override import override

Activity = dict[str, Any]
"""In the shape of the API."""
KEPT = 2000
"""Activities kept per account and region."""


def activities(backend: AutoScalingBackend) -> list[Activity]:
    """Every activity of an account and region, oldest first."""
    kept: list[Activity] = backend.__dict__.setdefault("activities", [])
    return kept


def begin(group: Any, description: str, cause: str, subnet: Any = None) -> Activity:
    """Note an activity in progress. `cause` continues "At <time>"."""
    details = {"Subnet ID": subnet.id, "Availability Zone": subnet.availability_zone} if subnet else {}
    activity = {
        "ActivityId": str(uuid.uuid4()),
        "AutoScalingGroupName": group.name,
        "AutoScalingGroupARN": group.arn,
        "Description": description,
        "Cause": f"At {utcnow():%Y-%m-%dT%H:%M:%SZ} {cause}",
        "StartTime": utcnow(),
        "StatusCode": "InProgress",
        "Progress": 50,
        "Details": json.dumps(details),
    }
    kept = activities(group.autoscaling_backend)
    kept.append(activity)
    del kept[:-KEPT]
    return activity


def end(activity: Activity, status: str = "Successful", message: str | None = None) -> None:
    """Note how an activity ended: Successful, Failed or Cancelled, and why."""
    activity.update(StatusCode=status, EndTime=utcnow(), Progress=100)
    if message:
        activity["StatusMessage"] = message


@override(AutoScalingResponse)
def describe_scaling_activities(self: AutoScalingResponse) -> ActionResult:
    """Newest first, in pages."""
    from .groups import find_group

    name, wanted = self._get_param("AutoScalingGroupName"), self._get_param("ActivityIds", [])
    backend = self.autoscaling_backend
    if name and not self._get_bool_param("IncludeDeletedGroups", False):
        find_group(backend, name)
    living = {group.arn for group in backend.autoscaling_groups.values()}
    found = [
        activity
        for activity in reversed(activities(backend))
        if name in (None, activity["AutoScalingGroupName"])
        and (not wanted or activity["ActivityId"] in wanted)
        and (activity["AutoScalingGroupARN"] in living or self._get_bool_param("IncludeDeletedGroups", False))
    ]
    token = self._get_param("NextToken")
    start = next((n + 1 for n, activity in enumerate(found) if activity["ActivityId"] == token), 0)
    page = found[start : start + min(self._get_int_param("MaxRecords") or 100, 100)]
    more = bool(page) and page[-1] is not found[-1]
    return ActionResult({"Activities": page, "NextToken": page[-1]["ActivityId"] if more else None})
