# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""All kinds of network resources, and a function that reads them."""

from __future__ import annotations

from functools import partial

from ..client import AwsClient, read_concurrently
from ..plan.resources import Found
from . import elastic_ips, guardduty, internet_gateway, nat_gateways, route_tables, security_groups, subnets, vpc, vpc_endpoints

PARTS = (vpc, internet_gateway, subnets, elastic_ips, nat_gateways, route_tables, security_groups, vpc_endpoints)
KINDS = (*(part.KIND for part in PARTS), *guardduty.KINDS)


def read(cloud: AwsClient) -> list[Found]:
    return read_concurrently([partial(part.read, cloud) for part in PARTS])
