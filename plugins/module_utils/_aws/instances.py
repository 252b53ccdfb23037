# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Identifies the instances that are nodes of a cluster. Performs no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MASTER = "master"
WORKERS = "workers"
NODE_TYPES = {MASTER: "Master", WORKERS: "Worker"}
MASTER_NUMBER = 1  # the master also takes part in training, as worker 1
NUMBER_TAG = "deeplearning:number"
ALIVE = ("pending", "running")
# How instances are paid for.
ON_DEMAND, SPOT, RESERVATION, BLOCK = "on-demand", "spot", "capacity-reservation", "capacity-block"
# Auto Scaling sets this tag on the instances of a group. Users cannot set or delete tags that begin with `aws:`.
GROUP_TAG = "aws:autoscaling:groupName"


def group_name(cluster: str, group: str) -> str:
    """Return the name of the Auto Scaling group for `master` or `workers`."""
    return f"{cluster}-{group}"


def node_name(cluster: str, group: str, number: int) -> str:
    """Return the name of a node of the group `master` or `workers`."""
    return f"{cluster}-{MASTER}" if group == MASTER else f"{cluster}-worker{number}"


def tags_of(instance: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of an instance as a dictionary."""
    return {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}


def market_of(instance: Mapping[str, Any]) -> str:
    """Return how an instance is paid for: `on-demand`, `spot` or `capacity-block`."""
    return str(instance.get("InstanceLifecycle") or ON_DEMAND)


def group_of(cluster: str, instance: Mapping[str, Any]) -> str | None:
    """Return `master` or `workers`, or None if the instance is not a node of the cluster. Only the tag `GROUP_TAG` is considered."""
    name = tags_of(instance).get(GROUP_TAG)
    return next((group for group in NODE_TYPES if name == group_name(cluster, group)), None)
