# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The network as one lifecycle unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._aws import CloudError
from .._plan.plan import Action, Change
from .._plan.resources import Found, Wanted
from ..unit import Request, Unit
from ..validation import normal_cidr
from . import addresses, definition, resources
from .zones import zones


def _read(request: Request, _network: Sequence[Found]) -> list[Found]:
    return resources.read(request.cloud)


def _wanted(request: Request, found: Sequence[Found]) -> Iterable[Wanted]:
    options = request.options
    existing = {item.address.key: item.properties["cidr"] for item in found if item.address.kind == "subnet"}
    network_cidr = normal_cidr(options["network_cidr"])
    subnets = addresses.subnets(network_cidr, zones(request, found), existing)
    ssh_cidrs = [normal_cidr(cidr) for cidr in options["ssh_cidrs"]]
    tags = request.tags(resources.COMPONENT)
    return definition.wanted(network_cidr, subnets, ssh_cidrs, request.cloud.region, tags, nat_subnet=_nat_subnet(found))


def _nat_subnet(found: Sequence[Found]) -> str | None:
    """The key of the subnet in which the NAT gateway is: it cannot move to another one."""
    subnet = next((item.properties["subnet"] for item in found if item.address == definition.NAT_GATEWAY), None)
    return next((item.address.key for item in found if item.address.kind == "subnet" and item.id == subnet), None)


def _refuse(request: Request, plan: Sequence[Change], found: Sequence[Found]) -> None:
    """A zone goes only without nodes: they keep its subnets from going, and would lose the file system first."""
    if not request.present:
        return
    inhabited = {subnet for item in found if item.address.kind == "nodes" for subnet in item.attributes["subnets"]}
    subnets = sorted(
        change.address.key for change in plan if change.action is Action.DELETE and change.found and change.found.id in inhabited
    )
    if subnets:
        raise CloudError(
            f"zones: nodes run in {', '.join(subnets)}. Keep their zones, or delete the cluster, which keeps the data, and create it again."
        )


UNIT = Unit(resources.COMPONENT, resources.KINDS, _read, _wanted, refuse=_refuse)
