# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Divides a network's address range among zones. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

SMALLEST_SUBNET = 28  # AWS accepts prefix lengths from /16 to /28 for VPCs and subnets
LARGEST_NETWORK = 16
MOST_BLOCKS = 8  # four zones with a public and a private subnet each
RESERVED = 5  # addresses that AWS reserves in each subnet


class AddressPlanError(ValueError):
    """The address range is invalid or too small for the subnets."""


def network(cidr: str) -> ipaddress.IPv4Network:
    """Parse the address range of a VPC. Raises AddressPlanError for an invalid range."""
    try:
        parsed = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        raise AddressPlanError(
            f"network_cidr: '{cidr}' is not an IPv4 address range ({error}). Specify one such as 10.0.0.0/16."
        ) from error
    if not LARGEST_NETWORK <= parsed.prefixlen < SMALLEST_SUBNET:
        size = "large" if parsed.prefixlen < LARGEST_NETWORK else "small"
        raise AddressPlanError(
            f"network_cidr: '{cidr}' is too {size}. Specify a prefix length from /{LARGEST_NETWORK} to /{SMALLEST_SUBNET - 1}, "
            f"because the smallest subnet is a /{SMALLEST_SUBNET}."
        )
    return parsed


def normal_cidr(cidr: str) -> str:
    """Return the range in the form that AWS uses, such as 203.0.113.7/32 for a single address."""
    return str(ipaddress.ip_network(cidr))


def room(mask: int, zones: int) -> int:
    """Return the number of host addresses in all public (or all private) subnets of a network with prefix length `mask`."""
    return int(zones * (2 ** (32 - _subnet_mask(mask)) - RESERVED))


def _subnet_mask(mask: int) -> int:
    return min(mask + MOST_BLOCKS.bit_length() - 1, SMALLEST_SUBNET)


def subnets(cidr: str, zones: Sequence[str], existing: Mapping[str, str]) -> dict[str, str]:
    """Return the CIDR blocks of the subnets, keyed by `public-ZONE` and `private-ZONE`.

    The range is divided into up to eight equal blocks. Private subnets begin at the start of the range, and public subnets in the middle.
    `existing` maps subnet keys to CIDR blocks. Existing subnets keep their blocks, so that zones can be added and removed. Raises
    AddressPlanError.
    """
    parsed = network(cidr)
    blocks = [str(block) for block in parsed.subnets(new_prefix=_subnet_mask(parsed.prefixlen))]
    half = len(blocks) // 2
    taken = set(existing.values())
    result = {}
    for side, choices in (("private", blocks[:half]), ("public", blocks[half:])):
        free = [block for block in choices if block not in taken]
        for zone in zones:
            key = f"{side}-{zone}"
            if key not in existing and not free:
                raise AddressPlanError(
                    f"network_cidr: '{cidr}' has room for {half} zones, but the cluster has {len(zones)}. "
                    "Specify a larger range or fewer zones."
                )
            result[key] = existing[key] if key in existing else free.pop(0)
    return result
