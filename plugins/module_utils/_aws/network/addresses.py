# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Divides a network's address range among zones. Performs no I/O."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from ..message_parts import P

SMALLEST_SUBNET = 28  # AWS accepts prefix lengths from /16 to /28 for VPCs and subnets
LARGEST_NETWORK = 16
MOST_BLOCKS = 8  # four zones with a public and a private subnet each
RESERVED = 5  # addresses that AWS reserves in each subnet
# The options that specify the ranges of the private and the public subnets, by zone.
RANGE_OPTIONS = {"private": "private_subnet_cidrs", "public": "public_subnet_cidrs"}


class AddressPlanError(ValueError):
    """The address range is invalid or too small for the subnets."""


def network(cidr: str) -> ipaddress.IPv4Network:
    """Parse the address range of a VPC. Raises AddressPlanError for an invalid range."""
    try:
        parsed = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        raise AddressPlanError(
            f"{P}network_cidr: '{cidr}' is not an IPv4 address range ({error}). Specify a range such as 10.0.0.0/16."
        ) from error
    if not LARGEST_NETWORK <= parsed.prefixlen < SMALLEST_SUBNET:
        reason = f"large, because the largest VPC is a /{LARGEST_NETWORK}"
        if parsed.prefixlen >= SMALLEST_SUBNET:
            reason = f"small, because the smallest subnet is a /{SMALLEST_SUBNET}"
        raise AddressPlanError(
            f"{P}network_cidr: '{cidr}' is too {reason}. Specify a prefix length from /{LARGEST_NETWORK} to /{SMALLEST_SUBNET - 1}."
        )
    return parsed


def subnet_range(option: str, cidr: str) -> ipaddress.IPv4Network:
    """Parse a subnet's address range that the option named `option` specifies. Raises AddressPlanError for an invalid range."""
    try:
        parsed = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        raise AddressPlanError(
            f"{P}{option}: '{cidr}' is not an IPv4 address range ({error}). Specify a range such as 10.0.0.0/24."
        ) from error
    if not LARGEST_NETWORK <= parsed.prefixlen <= SMALLEST_SUBNET:
        raise AddressPlanError(
            f"{P}{option}: '{cidr}' is too large or too small. Specify a prefix length from /{LARGEST_NETWORK} to /{SMALLEST_SUBNET}."
        )
    return parsed


def chosen_ranges(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the CIDR blocks that the definition specifies for subnets, keyed by subnet. Raises AddressPlanError for an invalid range."""
    return {f"{side}-{zone}": str(subnet_range(option, cidr)) for option, side, zone, cidr in _specified(options)}


def _specified(options: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the option, the side, the zone and the CIDR block of each range in the definition."""
    for side, option in RANGE_OPTIONS.items():
        for zone, cidr in (options[option] or {}).items():
            yield option, side, zone, str(cidr)


def range_errors(options: Mapping[str, Any], zones: Sequence[str], existing: Mapping[str, str]) -> Iterator[str]:
    """Return error messages about the CIDR blocks that the definition specifies for subnets. `existing` maps subnet keys to CIDR blocks."""
    try:
        whole = network(options["network_cidr"])
    except AddressPlanError:
        return  # the validator for network_cidr reports the invalid range
    valid: dict[str, ipaddress.IPv4Network] = {}
    for option, side, zone, value in _specified(options):
        try:
            parsed = subnet_range(option, value)
        except AddressPlanError as error:
            yield str(error)
            continue
        if zone not in zones:
            yield f"{P}{option}: {zone} is not a zone of the cluster ({', '.join(zones)}). Add it to {P}zones, or remove its range."
        if not parsed.subnet_of(whole):
            yield f"{P}{option}: {parsed} is not part of {whole}, the range in {P}network_cidr. Specify a part of this range."
        valid[f"{side}-{zone}"] = parsed
    others = {key: ipaddress.IPv4Network(block) for key, block in existing.items() if key not in valid}
    for (key, one), (other_key, other) in combinations({**valid, **others}.items(), 2):
        if key in valid and one.overlaps(other):
            option = RANGE_OPTIONS[key.split("-", 1)[0]]
            yield f"{P}{option}: {one} of subnet {key} overlaps {other} of subnet {other_key}. Specify ranges that do not overlap."


def normal_cidr(cidr: str) -> str:
    """Return the range in the form that AWS uses, such as 203.0.113.7/32 for a single address."""
    return str(ipaddress.ip_network(cidr))


def hosts(cidr: str) -> int:
    """Return the number of host addresses in a subnet."""
    return int(ipaddress.IPv4Network(cidr).num_addresses - RESERVED)


def room(mask: int, zones: int) -> int:
    """Return the number of host addresses in all public (or all private) subnets of a network with prefix length `mask`."""
    return int(zones * (2 ** (32 - _subnet_mask(mask)) - RESERVED))


def _subnet_mask(mask: int) -> int:
    return min(mask + MOST_BLOCKS.bit_length() - 1, SMALLEST_SUBNET)


def subnets(cidr: str, zones: Sequence[str], fixed: Mapping[str, str]) -> dict[str, str]:
    """Return the CIDR blocks of the subnets, keyed by `public-ZONE` and `private-ZONE`.

    The range is divided into up to eight equal blocks. Private subnets begin at the start of the range, and public subnets in the middle.
    `fixed` maps the keys of subnets that exist, or whose ranges the definition specifies, to CIDR blocks. These subnets keep their blocks,
    so that zones can be added and removed. Raises AddressPlanError.
    """
    parsed = network(cidr)
    blocks = list(parsed.subnets(new_prefix=_subnet_mask(parsed.prefixlen)))
    half = len(blocks) // 2
    taken = [ipaddress.IPv4Network(block) for block in fixed.values()]
    result = {}
    for side, choices in (("private", blocks[:half]), ("public", blocks[half:])):
        free = [block for block in choices if not any(block.overlaps(other) for other in taken)]
        for zone in zones:
            key = f"{side}-{zone}"
            if key not in fixed and not free:
                raise AddressPlanError(
                    f"{P}network_cidr: '{cidr}' has room for {half} zones, but the cluster has {len(zones)}. "
                    "Specify a larger range or fewer zones."
                    if len(zones) > half
                    else f"{P}{RANGE_OPTIONS[side]}: the other subnets of '{cidr}' leave no /{blocks[0].prefixlen} block for the {side} "
                    f"subnet of {zone}. Specify a range for this zone."
                )
            result[key] = fixed[key] if key in fixed else str(free.pop(0))
    return result
