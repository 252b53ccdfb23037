# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What AWS charges for in a network: NAT gateways, public addresses and interface endpoints. Performs no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..pricing.charges import Charge, Product, Resources

NAT_GATEWAY = Product("nat_gateway", "", "AmazonEC2", "NatGateway-Hours", published=0.045)
PUBLIC_IPV4 = Product("public_ipv4", "", "AmazonVPC", "PublicIPv4:InUseAddress", published=0.005)
ENDPOINT = Product("endpoint", "", "AmazonVPC", "VpcEndpoint-Hours", published=0.01)


def charges(resources: Resources, _zones: Collection[str]) -> Iterator[Charge]:
    """Yield the charges. An interface endpoint is charged for in each of its subnets."""
    for address, item in resources.items():
        if address.kind == "nat_gateway":
            yield Charge(address, NAT_GATEWAY, 1)
        elif address.kind == "elastic_ip":
            yield Charge(address, PUBLIC_IPV4, 1)
        elif address.kind == "vpc_endpoint" and item.properties.get("type") == "Interface":
            yield Charge(address, ENDPOINT, len(item.properties["subnets"]))
