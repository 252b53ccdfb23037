# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The validator for the address ranges from which SSH is allowed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from ..component import Request
from ..message_parts import P
from ..network import adopted
from ..network.definition import SSH_GROUP
from ..plan.resources import Found
from ..tags import NETWORK_COMPONENT
from ..validator import Validator

MOST_RULES = 60  # default quota for inbound rules of a security group, separately for IPv4 and IPv6
# The largest ranges that a single company owns. Registries assign an IPv6 /32 to providers, and a few companies own an IPv4 /8
WIDEST_SSH_RANGE = {4: ipaddress.ip_network("0.0.0.0/8"), 6: ipaddress.ip_network("::/32")}
PRIVATE: dict[int, list[Any]] = {
    4: [ipaddress.ip_network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")],
    6: [ipaddress.ip_network("fc00::/7")],
}


def check_ssh_cidrs(cidrs: Sequence[str], allow_anywhere: bool, *, needed: bool = True) -> Iterator[str]:
    """Check the ranges from which SSH is allowed. Large public ranges are accepted only if the definition explicitly allows them."""
    if needed and not cidrs:
        yield (
            f"{P}ssh_cidrs: no address range is set. Specify the address ranges from which SSH is allowed to reach the master, for example "
            "203.0.113.0/24."
        )
    parsed: list[Any] = []
    for cidr in cidrs:
        try:
            parsed.append(ipaddress.ip_network(cidr))
        except ValueError:
            yield f"{P}ssh_cidrs: '{cidr}' is not an address range. Specify {_range_of(cidr) or 'a range such as 203.0.113.0/24'}."
    for version in (4, 6):
        count = len({item for item in parsed if item.version == version})
        if count > MOST_RULES:
            yield (
                f"{P}ssh_cidrs: {count} IPv{version} ranges exceed the limit of {MOST_RULES} rules for a security group. Specify fewer, "
                f"larger ranges, or use a security group of yours ({P}security_group_ids)."
            )
    if not allow_anywhere:
        yield from _check_public_ranges(parsed)


def _check_public_ranges(parsed: Sequence[Any]) -> Iterator[str]:
    """Check that the networks from which SSH is allowed do not contain too many public addresses."""
    advice = f"Specify your own ranges. To allow this anyway, set {P}allow_ssh_from_anywhere: true."
    for version, widest in WIDEST_SSH_RANGE.items():
        public = [item for item in parsed if item.version == version and not any(item.subnet_of(own) for own in PRIVATE[version])]
        together = list(ipaddress.collapse_addresses(public))
        if any(item.prefixlen == 0 for item in together):
            yield f"{P}ssh_cidrs: {', '.join(map(str, public))} would open SSH to the whole internet. {advice}"
        elif sum(item.num_addresses for item in together) > widest.num_addresses:
            yield (
                f"{P}ssh_cidrs: {', '.join(map(str, public))} would open SSH to more internet addresses than a /{widest.prefixlen} "
                f"contains. {advice}"
            )


def _range_of(cidr: str) -> str | None:
    """Return the address range that contains the address in the text, such as 10.0.0.0/8 for 10.1.2.3/8. Return None for any other text."""
    try:
        return str(ipaddress.ip_network(cidr, strict=False))
    except ValueError:
        return None


class SshCidrs(Validator):
    name = "ssh_cidrs"
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        needed = options["master_public_address"] and SSH_GROUP.key not in adopted.group_ids(request)
        return check_ssh_cidrs(options["ssh_cidrs"], options["allow_ssh_from_anywhere"], needed=needed)
