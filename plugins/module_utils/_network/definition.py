# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a cluster's network consists of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Tuple

from .._plan.resources import Address, Ref, Wanted

ANYWHERE = "0.0.0.0/0"
SELF = "self"

VPC = Address("vpc", "main")
INTERNET_GATEWAY = Address("internet_gateway", "main")
ELASTIC_IP = Address("elastic_ip", "nat")
NAT_GATEWAY = Address("nat_gateway", "main")
PUBLIC_ROUTES = Address("route_table", "public")
PRIVATE_ROUTES = Address("route_table", "private")
S3_ENDPOINT = Address("vpc_endpoint", "s3")
NODES_GROUP = Address("security_group", "nodes")
SSH_GROUP = Address("security_group", "ssh")
STORAGE_GROUP = Address("security_group", "storage")

Rule = Tuple[str, int, int, Any]
"""Protocol, first and last port (-1, -1 = all), and who: a CIDR, C(self), or a reference to a security group."""

ALL_TRAFFIC = ("-1", -1, -1)


def subnet(side: str, zone: str) -> Address:
    return Address("subnet", f"{side}-{zone}")


def wanted(
    cidr: str,
    subnet_cidrs: Mapping[str, str],
    ssh_cidrs: Sequence[str],
    region: str,
    tags: Callable[[Address], dict[str, str]],
    *,
    nat_subnet: str | None = None,
) -> list[Wanted]:
    """The resources of a network.

    C(subnet_cidrs) maps subnet keys (C(public-ZONE), C(private-ZONE)) to CIDRs; C(tags) gives the tags for an address.
    The NAT gateway stays in C(nat_subnet) as long as that is one of them; otherwise it is in the first public one.
    """

    def item(address: Address, *after: Address, **properties: Any) -> Wanted:
        return Wanted(address, {**properties, "tags": tags(address)}, after)

    vpc = Ref(VPC)
    addresses = {key: Address("subnet", key) for key in subnet_cidrs}
    sides = {side: frozenset(Ref(address) for key, address in addresses.items() if key.startswith(side)) for side in ("public", "private")}
    first_public = min(key for key in subnet_cidrs if key.startswith("public-"))
    with_nat = nat_subnet if nat_subnet and nat_subnet in subnet_cidrs else first_public
    nodes = Ref(NODES_GROUP)
    return [
        item(VPC, cidr=cidr, dns_support=True, dns_hostnames=True),
        item(INTERNET_GATEWAY, vpc=vpc),
        *(item(address, vpc=vpc, cidr=subnet_cidrs[key], zone=key.split("-", 1)[1]) for key, address in addresses.items()),
        item(ELASTIC_IP),
        item(NAT_GATEWAY, INTERNET_GATEWAY, subnet=Ref(addresses[with_nat]), elastic_ip=Ref(ELASTIC_IP), state="available"),
        item(PUBLIC_ROUTES, vpc=vpc, routes=frozenset({(ANYWHERE, Ref(INTERNET_GATEWAY))}), subnets=sides["public"]),
        item(PRIVATE_ROUTES, vpc=vpc, routes=frozenset({(ANYWHERE, Ref(NAT_GATEWAY))}), subnets=sides["private"]),
        item(S3_ENDPOINT, vpc=vpc, service=f"com.amazonaws.{region}.s3", route_tables=frozenset({Ref(PUBLIC_ROUTES), Ref(PRIVATE_ROUTES)})),
        item(
            NODES_GROUP,
            vpc=vpc,
            description="Nodes of the cluster among themselves, all protocols as EFA needs it",
            ingress=frozenset({(*ALL_TRAFFIC, SELF)}),
            egress=frozenset({(*ALL_TRAFFIC, SELF), (*ALL_TRAFFIC, ANYWHERE)}),
        ),
        item(
            SSH_GROUP,
            vpc=vpc,
            description="SSH to the master from the ranges that the owner names",
            ingress=frozenset(("tcp", 22, 22, source) for source in ssh_cidrs),
        ),
        item(
            STORAGE_GROUP,
            vpc=vpc,
            description="NFS from the nodes to the file system",
            ingress=frozenset({("tcp", 2049, 2049, nodes)}),
        ),
    ]
