# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for the network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..client import ClusterError
from ..component import Component, Request
from ..message_parts import P
from ..plan.planning import Action, Change
from ..plan.resources import Found, Wanted
from ..tags import NETWORK_COMPONENT
from . import addresses, adopted, definition, endpoint_services, guardduty, resources
from .charges import charges
from .iam_actions import IAM_ACTIONS
from .zones import zones


def _read(request: Request, _network: Sequence[Found]) -> list[Found]:
    own = resources.read(request.cloud)
    known = {item.address for item in own}
    vpc = next((item for item in own if item.address == definition.VPC), None)
    if vpc:
        return own if request.present else [*own, *guardduty.read(request.cloud, vpc.id)]
    return own + [item for item in adopted.read(request, own) if item.address not in known]


def _wanted(request: Request, found: Sequence[Found]) -> Iterable[Wanted]:
    options, tags, zone_names = request.options, request.tags(NETWORK_COMPONENT), zones(request, found)
    ssh_cidrs = [addresses.normal_cidr(cidr) for cidr in options["ssh_cidrs"]]
    offered = endpoint_services.offered(request.cloud) if options["interface_endpoints"] else {}
    endpoints = {name: offered[name]["ServiceName"] for name in options["interface_endpoints"] if name in offered}
    if options["vpc_id"]:
        return definition.access(zone_names, _server_rules(request, found, subnet_cidrs(found)), ssh_cidrs, endpoints, tags)
    cidr, cidrs = addresses.normal_cidr(options["network_cidr"]), own_subnets(request, found)
    own = definition.own_network(cidr, cidrs, _s3_service(request, found), tags, nat=options["nat"], nat_subnet=_nat_subnet(found))
    return [*own, *definition.access(zone_names, _server_rules(request, found, cidrs), ssh_cidrs, endpoints, tags)]


def _s3_service(request: Request, found: Sequence[Found]) -> str:
    """Return the name of S3 as an endpoint service, which depends on the partition."""
    existing = (item.properties["service"] for item in found if item.address == definition.S3_ENDPOINT)
    return next(existing, None) or endpoint_services.gateway(request.cloud, "s3")


def _server_rules(request: Request, found: Sequence[Found], subnet_cidrs: Mapping[str, str]) -> set[definition.SecurityRule]:
    return {rule for component in request.storage for rule in component.server_rules(request, found, subnet_cidrs)}


def own_subnets(request: Request, found: Sequence[Found]) -> dict[str, str]:
    """Return the CIDR blocks of the subnets in the cluster's own VPC, keyed by subnet. Raises AddressPlanError.

    Only NAT gateways and a master with a public address need public subnets. If the cluster has neither NAT gateways nor such a master, the
    CIDR blocks for public subnets stay free.
    """
    options = request.options
    fixed = {**subnet_cidrs(found), **addresses.chosen_ranges(options)}
    planned = addresses.subnets(addresses.normal_cidr(options["network_cidr"]), zones(request, found), fixed)
    public = options["master_public_address"] or options["nat"] != "none"
    return {key: cidr for key, cidr in planned.items() if public or not key.startswith("public-")}


def subnet_cidrs(found: Sequence[Found]) -> dict[str, str]:
    """Return the CIDR blocks of the subnets that exist, keyed by subnet. Subnets with only IPv6 addresses are omitted."""
    return {item.address.key: item.properties["cidr"] for item in found if item.address.kind == "subnet" and item.properties["cidr"]}


def _nat_subnet(found: Sequence[Found]) -> str | None:
    """Return the key of the NAT gateway's subnet. A NAT gateway cannot be moved to a different subnet."""
    subnet = next((item.properties["subnet"] for item in found if item.address == definition.NAT_GATEWAY), None)
    return next((item.address.key for item in found if item.address.kind == "subnet" and item.id == subnet), None)


def _refuse(request: Request, plan: Sequence[Change], found: Sequence[Found]) -> None:
    """Refuse to delete a subnet that contains nodes.

    AWS would reject the deletion only after the nodes have lost access to their file system.
    """
    if not request.present:
        return
    _refuse_lost_zones(request, found)
    inhabited = _inhabited(found)
    subnets = sorted(
        change.address.key for change in plan if change.action is Action.DELETE and change.found and change.found.id in inhabited
    )
    if not subnets:
        return
    option = "zones" if any(key.startswith("private-") for key in subnets) else "master_public_address"
    kept = "Keep the zones of these subnets" if option == "zones" else "Keep this option set to true, or keep a NAT gateway"
    raise ClusterError(
        f"{P}{option}: nodes are running in {', '.join(subnets)}. {kept}, or delete the cluster (the data is kept) and create it again."
    )


def _refuse_lost_zones(request: Request, found: Sequence[Found]) -> None:
    """Refuse to remove a zone that contains nodes.

    An adopted subnet would be kept, but the mount target in that subnet would be deleted.
    """
    if not request.options["vpc_id"]:
        return
    inhabited = {item["AvailabilityZone"] for item in adopted.subnets(request.cloud, _inhabited(found))}
    lost = inhabited - set(zones(request, found))
    if lost:
        raise ClusterError(
            f"{P}private_subnet_ids: nodes are running in {', '.join(sorted(lost))}. Keep a subnet in each of these zones, "
            "or delete the cluster (the data is kept) and create it again."
        )


def _inhabited(found: Sequence[Found]) -> set[str]:
    return {subnet for item in found if item.address.kind == "nodes" for subnet in item.attributes["subnets"]}


NETWORK = Component(NETWORK_COMPONENT, resources.KINDS, IAM_ACTIONS, _read, _wanted, refuse=_refuse, charges=charges)
