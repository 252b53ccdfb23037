# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the account's quotas. The validators check a quota only if the run creates resources that count toward the quota."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..._words import plural
from ..client import AwsClient, ClusterError
from ..component import Request
from ..error_codes import error_code
from ..instances import group_of
from ..message_parts import P
from ..network.component import NETWORK
from ..node_group import capacity
from ..node_group.component import NODE_GROUP
from ..node_group.definition import MASTER_ADDRESS
from ..node_group.launch_and_termination import ALIVE
from ..node_names import MASTER, numbers
from ..plan.resources import Found
from ..tags import NETWORK_COMPONENT, NODES_COMPONENT
from ..validator import Level, Validator

try:
    from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError
except ImportError:
    pass  # AnsibleAWSModule reports the missing library

ON_DEMAND = "on-demand"
ADDRESSES = "L-0263D0A3"
VPCS = "L-F678F1CE"
NAT_GATEWAYS = "L-FE5A380F"
# The names of the vCPU quotas. Reservations and Capacity Blocks already count toward these quotas, so their markets are not listed
VCPU_QUOTAS = {
    ON_DEMAND: re.compile(r"Running On-Demand (.+) instances"),
    capacity.SPOT: re.compile(r"All (.+) Spot Instance Requests"),
}


class Quota(NamedTuple):
    code: str
    name: str
    value: float


def quotas(cloud: AwsClient, service: str) -> list[Quota] | None:
    """Return the account's quotas for a service, or None if Service Quotas is not reachable or denies access."""
    try:
        listed = cloud.retrieve_once("service-quotas", "list_service_quotas", "Quotas", ServiceCode=service)
    except (EndpointConnectionError, ConnectTimeoutError):
        return None
    except ClientError as error:
        if error_code(error) not in ("AccessDenied", "AccessDeniedException"):
            raise
        return None
    return [Quota(item["QuotaCode"], item["QuotaName"], item["Value"]) for item in listed if "Value" in item]


def families(name: str, market: str) -> tuple[str, ...]:
    """Return the instance type prefixes in the name of a vCPU quota, or an empty tuple if the quota is not a vCPU quota."""
    match = VCPU_QUOTAS[market].fullmatch(name)
    if not match:
        return ()
    listed = re.search(r"\((.+)\)", match[1])
    return tuple(part.lower() for part in re.split(r", | and ", listed[1] if listed else match[1]))


def vcpu_quota(instance_type: str, market: str, known: Iterable[Quota]) -> Quota | None:
    """Return the vCPU quota of an instance type.

    The longest matching prefix determines the quota. For example, the quota for Trn, and not the quota for T, applies to `trn1`.
    """
    matching = [(len(family), quota) for quota in known for family in families(quota.name, market) if instance_type.startswith(family)]
    return max(matching)[1] if matching else None


def vcpu_shortfall(cloud: AwsClient, instance_type: str, market: str, count: int) -> str | None:
    """Return a message if the quota is too low for `count` instances. Return None if the quota is sufficient or if no quota applies."""
    known = quotas(cloud, "ec2") or []
    quota = vcpu_quota(instance_type, market, known) if market in VCPU_QUOTAS else None
    each = _vcpus(cloud, [instance_type]).get(instance_type)
    if not quota or not each:
        return None
    others = Counter(
        instance["InstanceType"]
        for instance in _others(cloud)
        if instance.get("InstanceLifecycle", ON_DEMAND) == market and vcpu_quota(instance["InstanceType"], market, known) == quota
    )
    sizes = _vcpus(cloud, others) if others else {}
    used = sum(sizes.get(name, 0) * number for name, number in others.items())
    if used + count * each <= quota.value:
        return None
    others_use = f", and other instances use {used} of them" if used else ""
    request = (
        f"aws service-quotas request-service-quota-increase --region {cloud.region} --service-code ec2 --quota-code {quota.code} "
        f"--desired-value {used + count * each}"
    )
    return (
        f"{P}instance_type: {count} nodes of {instance_type} ({market}) need {count * each} vCPUs, but the quota '{quota.name}' "
        f"({quota.code}) in {cloud.region} allows {quota.value:.0f}{others_use}. Launch fewer nodes ({P}worker_count) or smaller ones, or "
        f"request an increase: {request}"
    )


def _others(cloud: AwsClient) -> Iterator[dict[str, Any]]:
    states = {"Name": "instance-state-name", "Values": list(ALIVE)}
    for reservation in cloud.retrieve_once("ec2", "describe_instances", "Reservations", Filters=[states]):
        for instance in reservation["Instances"]:
            if group_of(cloud.cluster, instance) is None:
                yield instance


def _vcpus(cloud: AwsClient, names: Iterable[str]) -> dict[str, int]:
    filters = [{"Name": "instance-type", "Values": sorted(names)}]
    described = cloud.retrieve_once("ec2", "describe_instance_types", "InstanceTypes", Filters=filters)
    return {item["InstanceType"]: item["VCpuInfo"]["DefaultVCpus"] for item in described}


class QuotaValidator(Validator):
    """The base class for validators that check one quota of `service`."""

    service = "ec2"

    def needed(self, request: Request, found: Sequence[Found]) -> int:
        """Return how much of the quota the run needs. Return 0 if no plan can be made, because other validators report the reason."""
        try:
            return self._needed(request, found)
        except (ClusterError, ValueError):
            return 0

    def _needed(self, request: Request, found: Sequence[Found]) -> int:
        raise NotImplementedError

    def _exceeded(self, cloud: AwsClient, code: str, used: int, needed: int) -> str | None:
        """Return a clause that describes the usage of the quota, or None if the quota is sufficient."""
        quota = next((item for item in quotas(cloud, self.service) or [] if item.code == code), None)
        if not quota or used + needed <= quota.value:
            return None
        return f"{used} of the {quota.value:.0f} that the quota '{quota.name}' ({code}) allows in {cloud.region} are in use"


class VcpuQuota(QuotaValidator):
    """Checks that the vCPU quota is large enough for at least one alternative."""

    name = "vcpu_quota"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def _needed(self, request: Request, found: Sequence[Found]) -> int:
        options = request.options
        if not options["instance_type"] or options["worker_count"] is None:
            return 0
        wanted = len(numbers(MASTER, 0)) + capacity.least_workers(request)
        existing = sum(len(item.properties["numbers"]) for item in found if item.address.kind == "nodes")
        return wanted if existing < wanted or options["replace_nodes"] else 0

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        count = self.needed(request, found)
        if not count:
            return
        alternatives = {(item.instance_type, item.market): None for item in capacity.choices(request, found)}
        messages = [list(_shortfalls(request, instance_type, market, count)) for instance_type, market in alternatives]
        if all(messages):
            yield from dict.fromkeys(message for each in messages for message in each)


def _shortfalls(request: Request, instance_type: str, market: str, count: int) -> Iterator[str]:
    """Yield a message for each quota that is too low. The master can be in a different market than the workers."""
    masters = len(numbers(MASTER, 0))
    needed = Counter({market: count - masters})
    needed[request.options["master_market"] or market] += masters
    for each, number in needed.items():
        message = vcpu_shortfall(request.cloud, instance_type, each, number)
        if message:
            yield message


class ReplacementQuota(VcpuQuota):
    """Checks the vCPU quota for the replacement of nodes that differ from the definition.

    Without `replace_nodes`, a run keeps these nodes.
    """

    name = "replacement_vcpu_quota"
    level = Level.WARNING
    for_launches = False

    def _needed(self, request: Request, found: Sequence[Found]) -> int:
        options = request.options
        if not options["instance_type"] or options["worker_count"] is None or capacity.may_replace_nodes(request, found):
            return 0
        if super()._needed(request, found) or capacity.is_in_use(capacity.choices(request, found)[0], found, options["master_market"]):
            return 0
        return len(numbers(MASTER, 0)) + capacity.least_workers(request)

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        for message in super().check(request, found):
            yield f"{message} The existing nodes stay as they are. A run that replaces these nodes fails while the quota is too low."


class AddressQuota(QuotaValidator):
    name = "address_quota"
    components = frozenset({NETWORK_COMPONENT, NODES_COMPONENT})

    def _needed(self, request: Request, found: Sequence[Found]) -> int:
        wanted = list(NETWORK.wanted(request, found)) if request.manages(NETWORK_COMPONENT) else []
        if request.manages(NODES_COMPONENT):
            wanted += NODE_GROUP.wanted(replace(request, chosen=capacity.choices(request, found)[0]), found)
        known = {item.address for item in found}
        return len([item for item in wanted if item.address.kind in ("elastic_ip", MASTER_ADDRESS.kind) and item.address not in known])

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        needed = self.needed(request, found)
        if not needed:
            return
        # Addresses from the account's own address ranges (BYOIP) do not count toward the quota
        addresses = request.cloud.retrieve_once("ec2", "describe_addresses", "Addresses")
        used = len([item for item in addresses if item.get("PublicIpv4Pool", "amazon") == "amazon"])
        exceeded = self._exceeded(request.cloud, ADDRESSES, used, needed)
        if exceeded:
            yield (
                f"{P}nat: the cluster needs {plural(needed, 'more Elastic IP address', 'more Elastic IP addresses')}, but {exceeded}. "
                f"Release unused addresses, request an increase in Service Quotas, or set {P}nat: none and {P}master_public_address: false."
            )


class VpcQuota(QuotaValidator):
    name = "vpc_quota"
    components = frozenset({NETWORK_COMPONENT})
    service = "vpc"

    def _needed(self, request: Request, found: Sequence[Found]) -> int:
        return int(not request.options["vpc_id"] and not any(item.address.kind == "vpc" for item in found))

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        needed = self.needed(request, found)
        if not needed:
            return
        # VPCs that other accounts share with this account do not count toward the quota
        account = request.cloud.client("sts").get_caller_identity()["Account"]
        own = [item for item in request.cloud.retrieve_once("ec2", "describe_vpcs", "Vpcs") if item.get("OwnerId") == account]
        exceeded = self._exceeded(request.cloud, VPCS, len(own), needed)
        if exceeded:
            yield (
                f"{P}vpc_id: the cluster needs a VPC of its own, but {exceeded}. "
                "Specify an existing VPC, delete an unused one, or request an increase in Service Quotas."
            )


class NatGatewayQuota(QuotaValidator):
    name = "nat_gateway_quota"
    components = frozenset({NETWORK_COMPONENT})
    service = "vpc"

    def _needed(self, request: Request, found: Sequence[Found]) -> int:
        return len(self._zones(request, found))

    def _zones(self, request: Request, found: Sequence[Found]) -> list[str]:
        known = {item.address for item in found}
        gateways = [item for item in NETWORK.wanted(request, found) if item.address.kind == "nat_gateway" and item.address not in known]
        return [item.properties["subnet"].address.key.partition("-")[2] for item in gateways]

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not self.needed(request, found):
            return
        alive = {"Name": "state", "Values": ["pending", "available", "deleting"]}
        gateways = request.cloud.retrieve_once("ec2", "describe_nat_gateways", "NatGateways", Filter=[alive])
        subnets = request.cloud.retrieve_once("ec2", "describe_subnets", "Subnets")
        zones = {item["SubnetId"]: item["AvailabilityZone"] for item in subnets}
        used = Counter(zones[item["SubnetId"]] for item in gateways if item.get("SubnetId") in zones)  # regional gateways have no subnet
        for zone in self._zones(request, found):
            exceeded = self._exceeded(request.cloud, NAT_GATEWAYS, used[zone], 1)
            if exceeded:
                yield (
                    f"{P}nat: the cluster needs a NAT gateway in {zone}, but {exceeded}. "
                    f"Delete unused NAT gateways, choose other zones, request an increase in Service Quotas, or set {P}nat: none."
                )


QUOTA_VALIDATORS = (VcpuQuota(), ReplacementQuota(), AddressQuota(), VpcQuota(), NatGatewayQuota())


class QuotasReadable(Validator):
    name = "quotas_readable"
    level = Level.WARNING
    components = frozenset({NETWORK_COMPONENT, NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        asked = [item for item in QUOTA_VALIDATORS if item.components & request.components and item.needed(request, found)]
        if any(quotas(request.cloud, service) is None for service in {item.service for item in asked}):
            yield (
                f"The account's quotas in {request.cloud.region} are not checked, because the credentials are not allowed to list them or "
                "Service Quotas is not reachable. Allow servicequotas:ListServiceQuotas, or check the network."
            )
