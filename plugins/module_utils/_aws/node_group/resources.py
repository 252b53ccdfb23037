# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the existing resources of a cluster's nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..client import AwsClient, read_concurrently
from ..node_names import MASTER
from ..plan.resources import Found
from . import auto_scaling_groups, launch_and_termination, launch_templates, master_elastic_ip, placement
from .definition import auto_scaling_group, launch_template, nodes

KINDS = (placement.KIND, launch_templates.KIND, auto_scaling_groups.KIND, launch_and_termination.KIND, master_elastic_ip.KIND)


def read(cloud: AwsClient, placement_group: str | None = None) -> list[Found]:
    """Return the cluster's launch templates, Auto Scaling groups and nodes, its placement group, and the master's Elastic IP address."""
    found = read_concurrently(
        [
            lambda: launch_templates.read(cloud),
            lambda: auto_scaling_groups.read(cloud),
            lambda: launch_and_termination.read(cloud),
            lambda: placement.read(cloud, placement_group),
            lambda: master_elastic_ip.read(cloud),
        ]
    )
    known = {item.address: item for item in found}
    # Nodes without a group are omitted, because they cannot be changed
    result = [_with_users(item, found) for item in found if item.address.kind != launch_and_termination.KIND.name]
    for item in found:
        group = known.get(auto_scaling_group(item.address.key))
        if item.address.kind == launch_and_termination.KIND.name and group:
            launched_from = {
                number: group.attributes["instances"].get(instance) for number, instance in item.attributes["instances"].items()
            }
            outdated = launch_templates.outdated(cloud, known.get(launch_template(item.address.key)), launched_from)
            ill = group.attributes["unhealthy"]
            unhealthy = tuple(number for number, instance in sorted(item.attributes["instances"].items()) if instance in ill)
            more = {"group": group.id, "outdated": outdated, "unhealthy": unhealthy}
            result.append(Found(item.address, group.id, {**item.properties, **more}, item.attributes))
    return result


def _with_users(item: Found, found: Sequence[Found]) -> Found:
    """Return the resource. For a placement group or the master's Elastic IP address, add information about the nodes that use it."""
    live = {other.address: other.attributes for other in found if other.address.kind == launch_and_termination.KIND.name}
    if item.address.kind == placement.KIND.name:
        in_it = any(item.id in attributes["placement_groups"] for attributes in live.values())
        templates = {
            other.address.key
            for other in found
            if other.address.kind == launch_templates.KIND.name and other.properties["placement_group"] == item.id
        }
        return replace(item, attributes={**item.attributes, "used_by_nodes": in_it, "used_by_templates": templates})
    if item.address.kind == master_elastic_ip.KIND.name:
        addresses = live[nodes(MASTER)]["public_addresses"]
        has_it = item.attributes["address"] in addresses
        public = bool(addresses) and all(addresses)
        return replace(
            item, properties={**item.properties, "master_is_public": public}, attributes={**item.attributes, "used_by_nodes": has_it}
        )
    return item
