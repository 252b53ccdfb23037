"""EC2's checks of service quotas."""

from __future__ import annotations

import re
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from ..capacity import SPOT
from ..context import CLOUD
from ..override import check_before
from ..servicequotas.quotas import ADDRESSES, NAT_GATEWAYS, VCPUS, VPCS, Quota
from . import nat_gateways  # this module's create_nat_gateway is checked below

VCPU_EXCEEDED = (
    "You have requested more vCPU capacity than your current vCPU limit of {limit:.0f} allows for the instance bucket that the specified "
    "instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."
)
FAMILY = re.compile(r"([a-z]+)(\d*)")


def check_vcpus(backend: EC2Backend, instance_type: str, market: str, count: int) -> None:
    """Raise `VcpuLimitExceeded` or `MaxSpotInstanceCountExceeded` if `count` more instances exceed their quota."""
    quota = _vcpu_quota(instance_type, market)
    if quota is None or quota.code not in CLOUD.quotas:
        return
    everything: list[Any] = backend.all_instances()
    live = [each.instance_type for each in everything if each.holds_capacity and each.market == market]
    used = sum(_vcpus(each) for each in live if _vcpu_quota(each, market) is quota)
    if used + count * _vcpus(instance_type) <= quota.value:
        return
    if market == SPOT:
        raise EC2ClientError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    raise EC2ClientError("VcpuLimitExceeded", VCPU_EXCEEDED.format(limit=quota.value))


def _vcpu_quota(instance_type: str, market: str) -> Quota | None:
    found = FAMILY.match(instance_type)
    family, generation = found.groups() if found else ("", "")
    for quota in VCPUS:
        if quota.market == market and family in quota.families and int(generation or 0) in quota.generations:
            return quota
    return None


def _vcpus(instance_type: str) -> int:
    return int(INSTANCE_TYPES[instance_type]["VCpuInfo"]["DefaultVCpus"])


def _check_addresses(response: EC2Response) -> None:
    if len(response.ec2_backend.addresses) >= ADDRESSES.value:
        raise EC2ClientError("AddressLimitExceeded", "The maximum number of addresses has been reached.")


def _check_vpcs(response: EC2Response) -> None:
    response.error_on_dryrun()  # moto creates a VPC
    if len(response.ec2_backend.vpcs) >= VPCS.value:
        raise EC2ClientError("VpcLimitExceeded", "The maximum number of VPCs has been reached.")


def _check_nat_gateways(response: EC2Response) -> None:
    backend, token = response.ec2_backend, response._get_param("ClientToken")
    if response._get_param("AvailabilityMode") == "regional":
        return
    zone = backend.get_subnet(response._get_param("SubnetId")).availability_zone
    zonal = [each for each in backend.nat_gateways.values() if isinstance(each, nat_gateways.NatGateway)]
    alive = [each for each in zonal if each.state in ("pending", "available", "deleting")]
    if token and any(each.client_token == token for each in alive):
        return
    if sum(1 for each in alive if backend.get_subnet(each.subnet_id).availability_zone == zone) >= NAT_GATEWAYS.value:
        raise EC2ClientError("NatGatewayLimitExceeded", "The maximum number of NAT Gateways has been reached.")


for _action, _check in (("allocate_address", _check_addresses), ("create_vpc", _check_vpcs), ("create_nat_gateway", _check_nat_gateways)):
    check_before(EC2Response, _action, _check)
