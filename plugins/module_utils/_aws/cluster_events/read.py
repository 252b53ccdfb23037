# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads what happened to a cluster, from AWS's own records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from ..client import AwsClient, tag_dict
from ..instances import group_of
from ..node_group import membership_tags
from ..node_group.former_nodes import activities
from ..node_group.node_service import AUTO_SCALING as SERVICE
from ..node_names import MASTER, WORKERS, group_name
from ..plan.resources import Address
from ..pricing.charges import Charge
from ..pricing.estimate import Estimate
from ..tags import CLUSTER_TAG
from .cloudtrail import Trail
from .scaling_activities import LifeOfNode, Member, ends_of, events_of, nodes_of, set_causes, set_differences, set_ends

SINCE = re.compile(r"([1-9][0-9]{0,3})([mhdw])")
UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def start_of(since: str, now: datetime) -> datetime:
    """Return when a time span such as `7d` or `12h` begins. Raises ValueError."""
    found = SINCE.fullmatch(since)
    if not found:
        raise ValueError(
            f"since: {since!r} is not a time span. Use a number with m, h, d or w, such as 12h or 7d, in "
            "deeplearning_events_since for the playbook events."
        )
    return now - timedelta(seconds=int(found[1]) * UNITS[found[2]])


def read(cloud: AwsClient, since_when: str, prices: bool) -> dict[str, Any]:
    """Return the events, nodes, price and problems, as the module `cluster_events_info` documents them. Raises ValueError."""
    trail = Trail(cloud)
    groups = {group_name(cloud.cluster, group): group for group in (MASTER, WORKERS)}
    for name in _foreign(cloud, groups):
        del groups[name]
        trail.problems.append({"kind": "foreign_group", "message": name})
    since = start_of(since_when, cloud.now)
    members = _members(cloud, groups)
    events = [event for name, group in groups.items() for event in events_of(group, activities(cloud, name, since))]
    nodes = nodes_of(cloud.cluster, events, members)
    ends = {name: event.time for event in [*events, *ends_of(members, events)] if event.ends_nodes for name in event.resources}
    events += trail.read(groups, nodes, since, ends)
    events += ends_of(members, events)
    events.sort(key=lambda event: event.time)
    set_ends(nodes, events)
    set_causes(events, groups)
    price = _set_prices(cloud, nodes.values()) if prices else None
    set_differences(events, nodes)
    return {
        "events": [asdict(event) for event in events if event.time >= since.timestamp()],
        "nodes": [asdict(node) for node in nodes.values()],
        "price": price,
        "problems": trail.problems,
        "since": since.timestamp(),
        "read_at": cloud.now.timestamp(),
    }


def _foreign(cloud: AwsClient, names: Iterable[str]) -> list[str]:
    """Return the names of existing groups that do not have the tag of the cluster. The answer also tells AWS's time."""
    answer = cloud.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=list(names))
    cloud.learn_time(answer)
    return [
        each["AutoScalingGroupName"] for each in answer["AutoScalingGroups"] if tag_dict(each["Tags"]).get(CLUSTER_TAG) != cloud.cluster
    ]


def _members(cloud: AwsClient, groups: Mapping[str, str]) -> list[Member]:
    """Return the instances of the groups, with those that were terminated within about an hour."""
    reservations = cloud.retrieve("ec2", "describe_instances", "Reservations", Filters=membership_tags.filters(cloud.cluster))
    found = [(group_of(cloud.cluster, each) or "", each) for reservation in reservations for each in reservation["Instances"]]
    return [(group, each) for group, each in found if group in groups.values()]


def _set_prices(cloud: AwsClient, nodes: Iterable[LifeOfNode]) -> dict[str, Any]:
    """Set what each node costs per hour, and return the price with its source."""
    known = [node for node in nodes if node.instance_type]
    charges = [
        Charge(Address("node", node.instance_id), product, 1) for node in known for product, _quantity in SERVICE.products(asdict(node))
    ]
    price = Estimate(cloud, (), charges).describe()
    for node, charge in zip(known, price["charges"]):
        node.hourly = charge["hourly"]
    return price
