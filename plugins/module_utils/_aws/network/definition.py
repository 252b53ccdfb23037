# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The resources of a cluster's network. Performs no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Callable, Dict, Tuple

from ..plan.resources import Address, Ref, Wanted

ANYWHERE = "0.0.0.0/0"
SELF = "self"
SINGLE, PER_ZONE = "single", "per_zone"

VPC = Address("vpc", "main")
INTERNET_GATEWAY = Address("internet_gateway", "main")
NAT_GATEWAY = Address("nat_gateway", "main")
PUBLIC_ROUTES = Address("route_table", "public")
PRIVATE_ROUTES = Address("route_table", "private")
S3_ENDPOINT = Address("vpc_endpoint", "s3")
NODES_GROUP = Address("security_group", "nodes")
SSH_GROUP = Address("security_group", "ssh")
STORAGE_GROUP = Address("security_group", "storage")
ENDPOINTS_GROUP = Address("security_group", "endpoints")

# The protocol, the first port, the last port and the peer. A rule for all ports has -1 as the first and the last port. The peer is a
# CIDR block, a prefix list, `self` or the `Ref` of a security group.
SecurityRule = Tuple[str, int, int, Any]
ResourceTags = Callable[[Address], Dict[str, str]]

ALL_TRAFFIC = ("-1", -1, -1)
SSH = ("tcp", 22, 22)
NFS = ("tcp", 2049, 2049)
HTTPS = ("tcp", 443, 443)


def subnet(side: str, zone: str) -> Address:
    return Address("subnet", f"{side}-{zone}")


def own_network(
    cidr: str, subnet_cidrs: Mapping[str, str], s3_service: str, tags: ResourceTags, *, nat: str = SINGLE, nat_subnet: str | None = None
) -> list[Wanted]:
    """Return a VPC with its subnets, gateways and routes.

    `subnet_cidrs` maps subnet keys (`public-ZONE`, `private-ZONE`) to CIDR blocks. `s3_service` is the name of S3 as an endpoint service.
    Without public subnets, there is no route to the internet. A single NAT gateway is in `nat_subnet` if the VPC has that subnet, and
    otherwise in the first public subnet.
    """
    item, vpc = partial(_item, tags), Ref(VPC)
    zones = {"public": list[str](), "private": list[str]()}
    for key in subnet_cidrs:
        side, zone = key.split("-", 1)
        zones[side].append(zone)
    result = [
        item(VPC, cidr=cidr, dns_support=True, dns_hostnames=True),
        *(item(subnet(side, zone), vpc=vpc, cidr=subnet_cidrs[f"{side}-{zone}"], zone=zone) for side in zones for zone in zones[side]),
    ]
    if zones["public"]:
        result += [
            item(INTERNET_GATEWAY, vpc=vpc),
            item(PUBLIC_ROUTES, vpc=vpc, routes=_default(INTERNET_GATEWAY), subnets=_subnets("public", zones["public"])),
        ]
    if nat == PER_ZONE:
        for zone in zones["private"]:
            gateway, routes = Address("nat_gateway", zone), Address("route_table", f"private-{zone}")
            result += _nat(item, gateway, Address("elastic_ip", f"nat-{zone}"), subnet("public", zone))
            result.append(item(routes, vpc=vpc, routes=_default(gateway), subnets=_subnets("private", [zone])))
    else:
        if nat == SINGLE:
            chosen = nat_subnet if nat_subnet in subnet_cidrs else f"public-{min(zones['public'])}"
            result += _nat(item, NAT_GATEWAY, Address("elastic_ip", "nat"), Address("subnet", str(chosen)))
        default = _default(NAT_GATEWAY) if nat == SINGLE else frozenset()
        result.append(item(PRIVATE_ROUTES, vpc=vpc, routes=default, subnets=_subnets("private", zones["private"])))
    tables = frozenset(Ref(each.address) for each in result if each.address.kind == PRIVATE_ROUTES.kind)
    return [*result, item(S3_ENDPOINT, type="Gateway", vpc=vpc, service=s3_service, route_tables=tables)]


def access(
    zones: Iterable[str], server_rules: Collection[SecurityRule], ssh_cidrs: Iterable[str], endpoints: Mapping[str, str], tags: ResourceTags
) -> list[Wanted]:
    """Return the security groups, and the interface endpoints through which nodes reach AWS services.

    `server_rules` contains rules for traffic from the address ranges of storage servers to their clients. `endpoints` maps
    short service names to full names.
    """
    item, vpc, nodes = partial(_item, tags), Ref(VPC), Ref(NODES_GROUP)
    # `server_rules` contains address ranges and not the servers' group, because a plan cannot create two security groups that refer to each
    # other.
    to_servers = {(*ports, who) for *ports, _cidr in server_rules for who in (nodes, SELF)}
    result = [
        item(
            NODES_GROUP,
            vpc=vpc,
            description="Nodes of the cluster among themselves, all protocols as EFA needs it",
            ingress=frozenset({(*ALL_TRAFFIC, SELF), *server_rules}),
            egress=frozenset({(*ALL_TRAFFIC, SELF), (*ALL_TRAFFIC, ANYWHERE)}),
        ),
        item(
            SSH_GROUP,
            vpc=vpc,
            description="SSH to the master from the ranges that the owner names",
            ingress=frozenset((*SSH, source) for source in ssh_cidrs),
        ),
        item(
            STORAGE_GROUP,
            vpc=vpc,
            description="NFS from the nodes to the file system",
            ingress=frozenset({(*NFS, nodes), *to_servers}),
        ),
    ]
    if not endpoints:
        return result
    group = item(
        ENDPOINTS_GROUP, vpc=vpc, description="HTTPS from the nodes to the interface endpoints", ingress=frozenset({(*HTTPS, nodes)})
    )
    interfaces = {"vpc": vpc, "subnets": _subnets("private", zones), "security_groups": frozenset({Ref(ENDPOINTS_GROUP)})}
    made = [
        item(Address("vpc_endpoint", name), type="Interface", service=service, private_dns=True, state="available", **interfaces)
        for name, service in endpoints.items()
    ]
    return [*result, group, *made]


def _item(tags: ResourceTags, address: Address, *after: Address, **properties: Any) -> Wanted:
    return Wanted(address, {**properties, "tags": tags(address)}, after)


def _subnets(side: str, zones: Iterable[str]) -> frozenset[Ref]:
    return frozenset(Ref(subnet(side, zone)) for zone in zones)


def _default(gateway: Address) -> frozenset[tuple[str, Ref]]:
    return frozenset({(ANYWHERE, Ref(gateway))})


def _nat(item: Callable[..., Wanted], gateway: Address, elastic_ip: Address, public: Address) -> Sequence[Wanted]:
    """Return a NAT gateway and its Elastic IP address. The internet gateway is created first, because the NAT gateway needs it."""
    return item(elastic_ip), item(gateway, INTERNET_GATEWAY, subnet=Ref(public), elastic_ip=Ref(elastic_ip), state="available")
