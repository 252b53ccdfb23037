"""Scaling activities of groups: action, cause, and result."""

from __future__ import annotations

import json
import uuid
from typing import Any

from moto.autoscaling.models import AutoScalingBackend

from ..context import CLOUD

# An activity in the format of the API.
Activity = dict[str, Any]
# The maximum number of activities that are kept per account and region.
KEPT = 2000


def activities(backend: AutoScalingBackend) -> list[Activity]:
    """Return all activities of an account and region, oldest first."""
    kept: list[Activity] = backend.__dict__.setdefault("activities", [])
    return kept


def begin(group: Any, description: str, cause: str, subnet: Any = None, request: str = "") -> Activity:
    """Record an activity in progress and return it. `cause` is the text after "At <time>", and `request` a text about what led to it."""
    details = {"Subnet ID": subnet.id, "Availability Zone": subnet.availability_zone} if subnet else {}
    activity = {
        "ActivityId": str(uuid.uuid4()),
        "AutoScalingGroupName": group.name,
        "AutoScalingGroupARN": group.arn,
        "Description": description,
        "Cause": f"{request}{at(cause)}",
        "StartTime": CLOUD.utcnow(),
        "StatusCode": "InProgress",
        "Progress": 50,
        "Details": json.dumps(details),
    }
    kept = activities(group.autoscaling_backend)
    kept.append(activity)
    del kept[:-KEPT]
    return activity


def end(activity: Activity, status: str = "Successful", message: str | None = None) -> None:
    """Record the end of an activity: the status (Successful, Failed or Cancelled) and a message."""
    activity.update(StatusCode=status, EndTime=CLOUD.utcnow(), Progress=100)
    if message:
        activity["StatusMessage"] = message


def at(text: str) -> str:
    """Return a text with the time, as in the causes of activities."""
    return f"At {CLOUD.utcnow():%Y-%m-%dT%H:%M:%SZ} {text}"
