# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What exists of a cluster's nodes."""

from __future__ import annotations

from .._aws import Cloud, together
from .._plan.resources import Found
from . import groups, launch_templates, members

KINDS = (launch_templates.KIND, groups.KIND, members.KIND)


def read(cloud: Cloud) -> list[Found]:
    """The cluster's launch templates, groups, and the nodes that have a number."""
    found = together([lambda: launch_templates.read(cloud), lambda: groups.read(cloud), lambda: members.read(cloud)])
    existing = {item.address.key: item for item in found if item.address.kind == groups.KIND.name}
    # Nodes belong to a group: without one there is nothing that could be changed
    result = [item for item in found if item.address.kind != members.KIND.name]
    for item in found:
        if item.address.kind == members.KIND.name and item.address.key in existing:
            group = existing[item.address.key]
            result.append(Found(item.address, group.id, {**item.properties, "group": group.id}, item.attributes))
    return result
