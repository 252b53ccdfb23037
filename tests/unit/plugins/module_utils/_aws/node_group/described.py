"""Descriptions of instances in EC2's format."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def instance(instance_id, group, minutes, number=None, public_ip=None, more=None):
    tags = {"aws:autoscaling:groupName": group, "deeplearning:cluster": "bert", **({"deeplearning:number": str(number)} if number else {})}
    tags.update(more or {})
    return {
        "InstanceId": instance_id,
        "InstanceType": "c5.large",
        "LaunchTime": NOW + timedelta(minutes=minutes),
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "PrivateIpAddress": f"10.0.0.{minutes}",
        "PublicIpAddress": public_ip,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
