# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks whether the nodes can reach file systems in other VPCs."""

from __future__ import annotations

from collections.abc import Sequence

from ..client import AwsClient
from ..network import adopted
from ..network.definition import VPC
from ..plan.resources import Found


def vpc_id(found: Sequence[Found]) -> str | None:
    return next((item.id for item in found if item.address == VPC), None)


def is_routed(cloud: AwsClient, found: Sequence[Found], address: str | None) -> bool:
    """Return whether all private subnets have a route to an address. If the address is unknown, return False."""
    vpc = vpc_id(found)
    subnets = [item.id for item in found if item.address.kind == "subnet" and item.address.key.startswith("private-")]
    tables = [adopted.route_table(cloud, vpc, subnet) for subnet in subnets] if vpc else []
    return bool(tables and address) and all(adopted.leads_to(table, str(address)) for table in tables)
