"""Notifications of groups about launches and terminations, which Auto Scaling sends to SNS topics.

Sources: Amazon EC2 Auto Scaling User Guide, "Amazon SNS notification options for Amazon EC2 Auto Scaling", and messages that AWS has
sent. They do not say what AWS sends while it deletes a group, so nothing is sent then.
"""

from __future__ import annotations

import json
from typing import Any

from moto.autoscaling.exceptions import ValidationError
from moto.sns.exceptions import SNSException
from moto.sns.models import sns_backends

from ..context import CLOUD
from .activities import Activity

TYPES = {
    "autoscaling:EC2_INSTANCE_LAUNCH": "launch",
    "autoscaling:EC2_INSTANCE_LAUNCH_ERROR": "failed launch",
    "autoscaling:EC2_INSTANCE_TERMINATE": "termination",
    "autoscaling:EC2_INSTANCE_TERMINATE_ERROR": "failed termination",
    "autoscaling:TEST_NOTIFICATION": "test notification",
}


def configure(group: Any, topic: str, types: list[str]) -> None:
    """Replace the types of notifications for a topic, and send a test. Raises `ValidationError` for a topic that cannot be used."""
    if not set(types) <= set(TYPES):
        raise ValidationError(f"1 validation error detected: the notification types must be among {', '.join(TYPES)}")
    try:
        _send(group, topic, "autoscaling:TEST_NOTIFICATION", {})
    except (LookupError, SNSException, ValueError) as error:
        raise ValidationError(f"Unable to publish test message to notification target {topic}") from error
    group.notifications[topic] = types


def publish(group: Any, activity: Activity, instance: str = "") -> None:
    """Send a message about an activity that has ended to the topics that want it. A message that cannot be sent is lost."""
    action = "TERMINATE" if activity["Description"].startswith("Terminating") else "LAUNCH"
    event = f"autoscaling:EC2_INSTANCE_{action}{'_ERROR' if activity['StatusCode'] == 'Failed' else ''}"
    details = {
        **{name: activity[name] for name in ("ActivityId", "Cause", "Description", "StatusCode")},
        **{name: _iso(activity[name]) for name in ("StartTime", "EndTime")},
        "Details": json.loads(activity["Details"]),
        "EC2InstanceId": instance,
        "Progress": 50,
        "StatusMessage": activity.get("StatusMessage", ""),
    }
    for topic, types in group.notifications.items():
        if event in types and activity["StatusCode"] != "Cancelled" and not group.deleting:
            try:
                _send(group, topic, event, details)
            except (LookupError, SNSException, ValueError):
                continue


def _send(group: Any, topic: str, event: str, details: dict[str, Any]) -> None:
    if topic.endswith(".fifo"):
        raise ValueError("FIFO topics require a message group, which Auto Scaling does not send")
    _arn, _partition, _sns, region, account, _name = topic.split(":")
    message = {
        "AccountId": group.arn.split(":")[4],
        "AutoScalingGroupARN": group.arn,
        "AutoScalingGroupName": group.name,
        "Event": event,
        "RequestId": details.get("ActivityId", ""),
        "Service": "AWS Auto Scaling",
        "Time": _iso(CLOUD.utcnow()),
        **details,
    }
    subject = f'Auto Scaling: {TYPES[event]} for group "{group.name}"'
    sns_backends[account][region].topics[topic].publish(json.dumps(message), subject[:100])


def _iso(moment: Any) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
