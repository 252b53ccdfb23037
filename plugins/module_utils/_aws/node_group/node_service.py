# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Implements `NodeService` for clusters whose nodes are launched by Auto Scaling groups."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from ..client import tag_dict
from ..instances import GROUP_TAG, ON_DEMAND, group_of, tags_of
from ..node_names import MASTER, WORKERS, group_name
from ..node_service import Instance, NodeService, Reader
from ..pricing.instance_products import of_market
from . import membership_tags
from .former_nodes import activities, departures, former_instances, running_instances
from .iam_actions import FORMER_NODES, NODES


def _instances(reader: Reader) -> list[Instance]:
    filters = [*membership_tags.filters(reader.cluster), {"Name": "instance-state-name", "Values": ["running"]}]
    names = [group_name(reader.cluster, group) for group in (MASTER, WORKERS)]
    for service in ("ec2", "autoscaling"):
        reader.client(service)  # the client is created once, before the threads use it
    with ThreadPoolExecutor(1) as pool:
        groups = pool.submit(
            reader.retrieve, "autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", AutoScalingGroupNames=names
        )
        reservations = reader.retrieve("ec2", "describe_instances", "Reservations", Filters=filters)
    tags = {group["AutoScalingGroupName"]: tag_dict(group["Tags"]) for group in groups.result()}
    instances = [instance for reservation in reservations for instance in reservation["Instances"]]
    return [membership_tags.with_storage_tags(each, tags.get(tags_of(each)[GROUP_TAG], {})) for each in instances]


def _former(reader: Reader, since: datetime, current: Collection[str]) -> list[dict[str, Any]]:
    reader.client("autoscaling")  # the client is created once, before the threads use it
    groups = [group_name(reader.cluster, group) for group in (MASTER, WORKERS)]
    with ThreadPoolExecutor(len(groups)) as pool:
        found = list(pool.map(lambda group: list(activities(reader, group, since)), groups))
    # Instances are read after the activities, so that no launched instance is missed
    running = running_instances(reader)
    former = set().union(*(former_instances(each, since, running) for each in found)) - set(current)
    return [node for each in found for node in departures(each, former, running)]


AUTO_SCALING = NodeService(
    _instances,
    group_of,
    lambda cluster, group: f"Auto Scaling group {group_name(cluster, group)}",
    "Wait until Auto Scaling has terminated the replaced master, or terminate the surplus instance with "
    "aws autoscaling terminate-instance-in-auto-scaling-group --should-decrement-desired-capacity --instance-id ...",
    _former,
    lambda node: [(of_market(node["instance_type"], node.get("market", ON_DEMAND), {node.get("zone", "")}), 1)],
    "ubuntu",
    NODES,
    FORMER_NODES,
)
