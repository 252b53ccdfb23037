# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Identifies the instances that are nodes of a cluster. Performs no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .node_names import NODE_TYPES, group_name

ALIVE = ("pending", "running")
# How instances are paid for.
ON_DEMAND, SPOT, RESERVATION, BLOCK = "on-demand", "spot", "capacity-reservation", "capacity-block"
# Auto Scaling sets this tag on the instances of a group. Users cannot set or delete tags that begin with `aws:`.
GROUP_TAG = "aws:autoscaling:groupName"


def tags_of(instance: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}


def market_of(instance: Mapping[str, Any]) -> str:
    """Return how an instance is paid for: `on-demand`, `spot` or `capacity-block`."""
    return str(instance.get("InstanceLifecycle") or ON_DEMAND)


def group_of(cluster: str, instance: Mapping[str, Any]) -> str | None:
    """Return `master` or `workers`, or None if the instance is not a node of the cluster. Only the tag `GROUP_TAG` is considered."""
    name = tags_of(instance).get(GROUP_TAG)
    return next((group for group in NODE_TYPES if name == group_name(cluster, group)), None)
