"""Private and public IP addresses of network interfaces."""

from __future__ import annotations

import ipaddress
from typing import Any

from moto.ec2.exceptions import EC2ClientError, InvalidSecurityGroupNotFoundError
from moto.ec2.models import EC2Backend, elastic_ip_addresses, elastic_network_interfaces, nat_gateways
from moto.ec2.models.subnets import Subnet

from ..context import CLOUD, ec2_regions
from ..override import override

# Number of reserved addresses at the start of a subnet: network, router, name server, future use. The last address is also reserved.
RESERVED_BY_AWS = 4

moto_create_network_interface = EC2Backend.create_network_interface
moto_delete_network_interface = EC2Backend.delete_network_interface


@override(Subnet)
def get_available_subnet_ip(self: Any, instance: Any) -> str:
    """Return the next free address after the one that was assigned last, so that an address is not reused immediately."""
    first = int(self.cidr.network_address) + RESERVED_BY_AWS
    count = self.cidr.num_addresses - RESERVED_BY_AWS - 1
    start = getattr(self, "_next_offset", 0)
    for step in range(count):
        offset = (start + step) % count
        address = str(ipaddress.IPv4Address(first + offset))
        if address not in self._subnet_ips:
            self._next_offset = offset + 1
            self._subnet_ips[address] = instance
            return address
    raise EC2ClientError(
        "InsufficientFreeAddressesInSubnet",
        f"There are not enough free addresses in subnet '{self.id}' to satisfy the requested number of instances.",
    )


@override(EC2Backend)
def create_network_interface(
    self: Any,
    subnet: Any,
    private_ip_address: Any,
    private_ip_addresses: Any = None,
    group_ids: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Create the interface with an address from its subnet. Raises `InvalidGroup.NotFound`."""
    for group in group_ids or []:
        if self.get_security_group_from_id(group) is None:
            raise InvalidSecurityGroupNotFoundError(group)
    if not private_ip_address and not private_ip_addresses:
        place = self.get_subnet(subnet) if isinstance(subnet, str) else subnet
        private_ip_address = place.get_available_subnet_ip(None)
    return moto_create_network_interface(self, subnet, private_ip_address, private_ip_addresses, group_ids, *args, **kwargs)


@override(EC2Backend)
def delete_network_interface(self: EC2Backend, eni_id: str) -> None:
    interface = self.enis.get(eni_id)
    moto_delete_network_interface(self, eni_id)
    self.tags.pop(eni_id, None)
    if interface:
        for address in interface.private_ip_addresses:
            interface.subnet.del_subnet_ip(address["PrivateIpAddress"])


@override(nat_gateways)
def random_private_ip() -> None:
    """Return nothing, because the subnet assigns the address of a NAT gateway."""


@override(elastic_network_interfaces)
def random_public_ip() -> str:
    return next_public_address()


@override(elastic_ip_addresses)
def random_ip() -> str:
    return next_public_address()


def next_public_address() -> str:
    """Return the next free address in the public prefix after the one that was assigned last. Raises `AddressLimitExceeded`."""
    network = ipaddress.IPv4Network(CLOUD.settings.public_prefix)
    taken = {interface.public_ip for backend in ec2_regions() for interface in backend.enis.values()}
    taken |= {address.public_ip for backend in ec2_regions() for address in backend.addresses}
    count = network.num_addresses - 2
    for _ in range(count):
        CLOUD.latest_public = CLOUD.latest_public % count + 1
        address = str(network[CLOUD.latest_public])
        if address not in taken:
            return address
    raise EC2ClientError("AddressLimitExceeded", "The maximum number of addresses has been reached.")
