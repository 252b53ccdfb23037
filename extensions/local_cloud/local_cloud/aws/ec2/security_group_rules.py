"""Security group rules: comparison and descriptions."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.security_groups import SecurityGroupRule
from moto.ec2.responses import EC2Response

from ..override import override

moto_describe_ingress = EC2Response.update_security_group_rule_descriptions_ingress
moto_describe_egress = EC2Response.update_security_group_rule_descriptions_egress


@override(SecurityGroupRule)
def __eq__(self: Any, other: Any) -> bool:
    """Return whether the rules are equal apart from their descriptions."""
    return _identity(self) == _identity(other)


def _identity(rule: Any) -> tuple[Any, ...]:
    ports = () if rule.ip_protocol == "-1" else (rule.from_port, rule.to_port)
    return (
        rule.ip_protocol,
        ports,
        rule.ip_range.get("CidrIp"),
        rule.ip_range.get("CidrIpv6"),
        rule.source_group.get("GroupId") or rule.source_group.get("GroupName"),
        rule.prefix_list_id,
    )


@override(EC2Response)
def update_security_group_rule_descriptions_ingress(self: EC2Response) -> ActionResult:
    moto_describe_ingress(self)
    return ActionResult({"Return": True})


@override(EC2Response)
def update_security_group_rule_descriptions_egress(self: EC2Response) -> ActionResult:
    moto_describe_egress(self)
    return ActionResult({"Return": True})
