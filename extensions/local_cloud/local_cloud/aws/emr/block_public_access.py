"""Block public access: in public subnets, EMR does not start clusters whose security groups allow access from all addresses.

Source: Amazon EMR Management Guide, "Using Amazon EMR block public access". New accounts have the configuration `DEFAULT`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moto.ec2.models import EC2Backend

DEFAULT = {
    "block_public_security_group_rules": True,
    "permitted_public_security_group_rule_ranges": [{"min_range": 22, "max_range": 22}],
}
EVERYBODY = ("0.0.0.0/0", "::/0")
PORTS = (0, 65535)


def configuration(backend: Any) -> dict[str, Any]:
    """Return the configuration of an account and region, in moto's format."""
    return backend.block_public_access_configuration.get("block_public_access_configuration") or DEFAULT


def open_group(backend: Any, ec2: EC2Backend, groups: Iterable[str]) -> str | None:
    """Return the first security group that allows traffic from any address to a port that the configuration does not permit, or None."""
    settings = configuration(backend)
    permitted = [(each["min_range"], each["max_range"]) for each in settings["permitted_public_security_group_rule_ranges"]]
    for group in groups if settings["block_public_security_group_rules"] else ():
        found: Any = ec2.get_security_group_from_id(group)
        for rule in found.ingress_rules:
            first, last = PORTS if rule.ip_protocol == "-1" else (rule.from_port, rule.to_port)
            is_public = rule.ip_protocol in ("tcp", "udp", "-1") and {rule.cidr_ipv4, rule.cidr_ipv6} & set(EVERYBODY)
            if is_public and not any(low <= first and last <= high for low, high in permitted):
                return group
    return None
