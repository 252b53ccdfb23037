# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the addresses of subnets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..component import Request
from ..message_parts import P
from ..network import addresses, adopted
from ..network.component import own_subnets, subnet_cidrs
from ..network.zones import zones
from ..node_group import instance_types
from ..node_group.definition import desired_workers
from ..node_names import MASTER, WORKERS
from ..plan.resources import Found
from ..tags import NETWORK_COMPONENT
from ..validator import Validator
from .network import groups_of_nodes


class SubnetRanges(Validator):
    """Checks the address ranges that the definition specifies for subnets of the cluster's own VPC."""

    name = "subnet_cidrs"
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        if options["vpc_id"] or not any(options[option] for option in addresses.RANGE_OPTIONS.values()):
            return iter(())
        return addresses.range_errors(options, zones(request, found), subnet_cidrs(found))


class EnoughAddresses(Validator):
    """Checks that the subnets have enough addresses for nodes, mount targets, endpoints and NAT gateways."""

    name = "enough_addresses"
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if request.options["vpc_id"]:
            return self._adopted(request, found)
        return self._own(request, found)

    @staticmethod
    def _own(request: Request, found: Sequence[Found]) -> Iterator[str]:
        cidr = request.options["network_cidr"]
        try:
            prefix = addresses.network(cidr).prefixlen
            chosen = addresses.chosen_ranges(request.options)
        except addresses.AddressPlanError:
            return
        try:
            planned = own_subnets(request, found)
        except addresses.AddressPlanError as error:
            yield str(error)
            return
        if chosen:
            yield from _chosen_ranges_suffice(planned, _demand(request, len(zones(request, found))))
            return
        zone_count = len(zones(request, found))
        need, room = max(_demand(request, zone_count).values()), addresses.room(prefix, zone_count)
        if need <= room:
            return
        fitting = [mask for mask in range(addresses.LARGEST_NETWORK, prefix) if addresses.room(mask, zone_count) >= need]
        advice = f"Specify a prefix length of /{max(fitting)} or shorter" if fitting else "Specify more zones or fewer workers"
        yield (
            f"{P}network_cidr: the public and the private subnets of {cidr} have room for {room} addresses each, "
            f"but {need} are needed. {advice}."
        )

    @staticmethod
    def _adopted(request: Request, found: Sequence[Found]) -> Iterator[str]:
        zone_count = len(zones(request, found))
        demand, taken = _demand(request, zone_count), _taken(request, found, zone_count)
        for side in adopted.SIDES:
            subnets = adopted.found_subnets(request, found, side)
            free, need = sum(item.attributes["free"] for item in subnets), demand[side] - taken[side]
            if subnets and need > free:
                names = ", ".join(sorted(item.id for item in subnets))
                yield (
                    f"{P}{side}_subnet_ids: {free} addresses are free in {names}, but {need} are needed. "
                    f"Specify larger subnets, or reduce {P}worker_count or {P}spares."
                )


def _chosen_ranges_suffice(planned: Mapping[str, str], demand: Mapping[str, int]) -> Iterator[str]:
    """Check that subnets whose ranges the definition specifies have enough addresses. `planned` maps subnet keys to CIDR blocks."""
    for side, need in demand.items():
        cidrs = [cidr for key, cidr in planned.items() if key.startswith(f"{side}-")]
        room = sum(addresses.hosts(cidr) for cidr in cidrs)
        if need > room:
            yield (
                f"{P}{addresses.RANGE_OPTIONS[side]}: {', '.join(cidrs)} have room for {room} addresses, but {need} are needed. "
                "Specify larger ranges, more zones or fewer workers."
            )


def _demand(request: Request, zones_in_use: int) -> dict[str, int]:
    """Return the number of addresses that nodes, mount targets, endpoints and NAT gateways need in the public and the private subnets."""
    options, node = request.options, _addresses_of_a_node(request)
    gateways = {"single": 1, "per_zone": zones_in_use, "none": 0}[options["nat"]]
    master, workers = (node if "worker_count" in options else 0), node * desired_workers(options)
    side_of_master = "public" if options["master_public_address"] else "private"
    in_each_zone = int(options.get("efs", True)) + len(set(options["interface_endpoints"]))
    demand = {"private": workers + zones_in_use * in_each_zone, "public": 0}
    demand[side_of_master] += master
    return demand if options["vpc_id"] else {**demand, "public": demand["public"] + gateways}


def _taken(request: Request, found: Sequence[Found], zones_in_use: int) -> dict[str, int]:
    """Return how many of the addresses counted by `_demand` are already in use by the cluster."""
    node = _addresses_of_a_node(request)
    nodes = {item.address.key: node * len(item.attributes["instances"]) for item in groups_of_nodes(found)}
    kinds = [item.address.kind for item in found]
    taken = {"private": kinds.count("mount_target") + zones_in_use * kinds.count("vpc_endpoint") + nodes.get(WORKERS, 0), "public": 0}
    taken["public" if request.options["master_public_address"] else "private"] += nodes.get(MASTER, 0)
    return taken


def _addresses_of_a_node(request: Request) -> int:
    """Return the number of addresses that one node needs: one for each network interface that is not of the type efa-only."""
    name = request.options.get("instance_type")
    instance_type = instance_types.find(request.cloud, name) if name else None
    if not instance_type:
        return 1
    interfaces = instance_types.interfaces(instance_type, efa=bool(request.options.get("efa")))
    return sum(interface_type != instance_types.EFA_ONLY for _card, _device, interface_type in interfaces)
