# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the network of an EMR cluster: the subnet, its VPC, and the security groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..client import AwsClient
from ..component import Request
from ..message_parts import P
from ..network import adopted
from ..network.definition import ANYWHERE
from ..network.security_groups import rules
from ..network.vpc import vpc_properties
from ..plan.resources import Found
from ..tags import EMR_COMPONENT
from ..validator import Validator
from .definition import CLUSTER
from .releases import FIRST_WITH_SERVICE_RULE, release

# The port on which the master connects to EMR. Source: Amazon EMR Management Guide, "Working with Amazon EMR-managed security groups".
SERVICE_PORT = 9443
EVERYBODY = (ANYWHERE, "::/0")
ALL_PORTS = (0, 65535)


class EmrNetwork(Validator):
    """Checks that the subnet and the security groups exist in the same VPC, that DNS is enabled there, and that EMR can reach the nodes."""

    name = "emr_network"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, subnet_id = request.cloud, request.options["emr_subnet_id"]
        subnet, groups = described_subnet(request), described_groups(request)
        if subnet_id and not subnet:
            yield f"{P}emr_subnet_id: there is no subnet '{subnet_id}' in {cloud.region}. Specify an existing subnet."
        if subnet:
            yield from _check_dns(cloud, subnet)
            yield from _check_service_access(request, subnet, groups)
        for option, identifier in named_groups(request.options):
            if identifier not in groups:
                yield f"{P}{option}: there is no security group '{identifier}' in {cloud.region}. Specify an existing security group."
            elif subnet and groups[identifier]["VpcId"] != subnet["VpcId"]:
                yield (
                    f"{P}{option}: {identifier} is in {groups[identifier]['VpcId']}, but the subnet {subnet_id} ({P}emr_subnet_id) is in "
                    f"{subnet['VpcId']}. Specify a security group in that VPC."
                )


def _check_dns(cloud: AwsClient, subnet: Mapping[str, Any]) -> Iterator[str]:
    attributes = {"dns_support": "enable-dns-support", "dns_hostnames": "enable-dns-hostnames"}
    for vpc in adopted.vpcs(cloud, subnet["VpcId"]):
        properties = vpc_properties(cloud, vpc)
        off = [flag for name, flag in attributes.items() if not properties[name]]
        if off:
            commands = "; ".join(f"aws ec2 modify-vpc-attribute --vpc-id {vpc['VpcId']} --{flag}" for flag in off)
            yield (
                f"{P}emr_subnet_id: {vpc['VpcId']}, the VPC of {subnet['SubnetId']}, lacks DNS resolution or DNS hostnames, which EMR "
                f"requires. Enable them: {commands}"
            )


def _check_service_access(request: Request, subnet: Mapping[str, Any], described: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Check that EMR and nodes in a private subnet can reach each other.

    If the definition specifies the other security groups, EMR does not create the security group for service access.
    """
    groups = request.options["emr_security_group_ids"]
    master, service, label = groups.get("master"), groups.get("service"), request.options["emr_release_label"]
    if not master or is_public(request.cloud, subnet):
        return
    if not service:
        yield (
            f"{P}emr_security_group_ids.service: missing, because the subnet {subnet['SubnetId']} ({P}emr_subnet_id) has no route to an "
            f"internet gateway. Specify the group through which EMR reaches the nodes, or remove {P}emr_security_group_ids."
        )
    elif (release(label) or ()) >= FIRST_WITH_SERVICE_RULE and service in described and not _lets_in(described[service], master):
        yield (
            f"{P}emr_security_group_ids.service: {service} has no inbound rule for TCP port {SERVICE_PORT} from the group of the master, "
            f"{master}. In a private subnet, {label} requires this rule, but EMR does not add it. Add the rule."
        )


def _lets_in(service: Mapping[str, Any], master: str) -> bool:
    ports = ("tcp", SERVICE_PORT, SERVICE_PORT)
    return any(rule[3] == master and adopted.covers(rule, ports) for rule in rules(service["IpPermissions"]))


class EmrPublicAccess(Validator):
    """Checks that EMR's block public access configuration permits the rules of the security groups in the definition.

    EMR does not start a cluster whose security groups have rules that this configuration does not permit.

    The validator does not check existing clusters, unless the run may replace them.
    """

    name = "emr_public_access"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, subnet = request.cloud, described_subnet(request)
        exists = any(item.address == CLUSTER for item in found)
        groups = {} if exists and not request.options["emr_replace"] else described_groups(request)
        if not groups or (subnet and not is_public(cloud, subnet)):
            return
        settings = cloud.emr.get_block_public_access_configuration()["BlockPublicAccessConfiguration"]
        ranges = settings.get("PermittedPublicSecurityGroupRuleRanges", [])
        permitted = [(each["MinRange"], each.get("MaxRange", each["MinRange"])) for each in ranges]
        for option, identifier in named_groups(request.options) if settings["BlockPublicSecurityGroupRules"] else ():
            blocked = _blocked_ports(groups.get(identifier), permitted)
            if blocked:
                yield (
                    f"{P}{option}: {identifier} allows traffic from all addresses on ports {blocked}, which EMR's block public access "
                    "configuration does not permit in a public subnet. Restrict the rules, or permit the ports with "
                    "aws emr put-block-public-access-configuration."
                )


def open_ports(group: Mapping[str, Any] | None) -> list[tuple[int, int]]:
    """Return the TCP and UDP port ranges on which a security group allows traffic from all addresses."""
    public = [rule for rule in rules(group["IpPermissions"]) if rule[3] in EVERYBODY] if group else []
    return [ALL_PORTS if protocol == "-1" else (first, last) for protocol, first, last, _who in public if protocol in ("-1", "tcp", "udp")]


def _blocked_ports(group: Mapping[str, Any] | None, permitted: Sequence[tuple[int, int]]) -> str:
    """Return the ports on which a security group, but not EMR, allows traffic from all addresses."""
    ports = {(first, last) for first, last in open_ports(group) if not any(low <= first and last <= high for low, high in permitted)}
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in sorted(ports))


def is_public(cloud: AwsClient, subnet: Mapping[str, Any]) -> bool:
    return adopted.leads_to_the_internet(adopted.route_table(cloud, subnet["VpcId"], subnet["SubnetId"]))


def described_subnet(request: Request) -> dict[str, Any] | None:
    """Return EC2's description of the subnet in the definition, or None if no subnet is specified or the subnet does not exist."""
    subnet_id = request.options["emr_subnet_id"]
    return next(iter(adopted.subnets(request.cloud, [subnet_id] if subnet_id else [])), None)


def described_groups(request: Request) -> dict[str, dict[str, Any]]:
    """Return EC2's descriptions of the existing security groups in the definition, by ID."""
    named = [identifier for _option, identifier in named_groups(request.options)]
    return {item["GroupId"]: item for item in adopted.groups(request.cloud, named)}


def named_groups(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the security groups in the definition, each with the option that specifies the group."""
    for name, identifier in options["emr_security_group_ids"].items():
        if identifier:
            yield f"emr_security_group_ids.{name}", identifier
    for name, identifiers in options["emr_additional_security_group_ids"].items():
        for identifier in identifiers or ():
            yield f"emr_additional_security_group_ids.{name}", identifier
