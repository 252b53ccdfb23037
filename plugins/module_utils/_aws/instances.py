# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Which instances are nodes of which cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MASTER = "master"
WORKERS = "workers"
NODE_TYPES = {MASTER: "Master", WORKERS: "Worker"}
GROUP_TAG = "aws:autoscaling:groupName"
"""Auto Scaling sets it on the instances of a group. EC2 does not let anybody set or delete tags that begin with `aws:`."""


def group_name(cluster: str, group: str) -> str:
    """Return the name of a group in AWS."""
    return f"{cluster}-{group}"


def tags_of(instance: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of an instance by their keys."""
    return {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}


def group_of(cluster: str, instance: Mapping[str, Any]) -> str | None:
    """Return `master` or `workers`, or None for an instance that is not a node of the cluster, whatever its other tags say."""
    name = tags_of(instance).get(GROUP_TAG)
    return next((group for group in NODE_TYPES if name == group_name(cluster, group)), None)
