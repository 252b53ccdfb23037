# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Limits what the SDK parses in responses that have an entry for each node.

For each node, the SDK takes longer to parse all members of a response than the inventory takes for everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A member that is parsed completely.
ALL: Mapping[str, Any] = {}
# A time that is kept as text, such as 2026-11-28T03:10:46.000Z. Texts in this format sort by time.
TIME = "string"
# The members that the inventory reads, by service and operation.
MEMBERS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "ec2": {
        "DescribeInstances": {
            "NextToken": ALL,
            "Reservations": {
                "Instances": {
                    "CapacityReservationId": ALL,
                    "InstanceId": ALL,
                    "InstanceLifecycle": ALL,
                    "InstanceType": ALL,
                    "LaunchTime": TIME,
                    "NetworkInterfaces": {"InterfaceType": ALL},
                    "Placement": {"AvailabilityZone": ALL},
                    "PrivateIpAddress": ALL,
                    "PublicIpAddress": ALL,
                    "Tags": ALL,
                }
            },
        }
    },
    "autoscaling": {"DescribeAutoScalingGroups": {"NextToken": ALL, "AutoScalingGroups": {"AutoScalingGroupName": ALL, "Tags": ALL}}},
}


def limit_members(client: Any, service: str) -> None:
    """Make an SDK client omit all other members from its responses."""
    for operation, members in MEMBERS.get(service, {}).items():
        _limit(client.meta.service_model.operation_model(operation).output_shape, members)


def _limit(shape: Any, members: Mapping[str, Any] | str) -> None:
    if isinstance(members, str):
        shape.type_name = members
    elif members:
        structure = getattr(shape, "member", shape)  # the element of a list
        for name in set(structure.members) - set(members):
            del structure.members[name]
        for name, inner in members.items():
            _limit(structure.members[name], inner)
