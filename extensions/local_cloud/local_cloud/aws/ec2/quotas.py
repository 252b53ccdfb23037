"""Service quotas, and what AWS refuses beyond them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.resources.default_quotas.vpc import VPC_DEFAULT_QUOTAS
from moto.servicequotas.responses import ServiceQuotasResponse

from ..capacity import ON_DEMAND, SPOT
from ..context import CLOUD
from ..override import override
from . import nat_gateways  # noqa: F401  # its calls are refuse_foreign_origins here

UNLIMITED = 1_000_000.0
"""The value of quotas that nobody has changed: generous, so that only who asks for it meets one."""
STANDARD = ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z")
VCPU_EXCEEDED = (
    "You have requested more vCPU capacity than your current vCPU limit of {limit:.0f} allows for the instance bucket that the specified "
    "instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."
)
FAMILY = re.compile(r"([a-z]+)(\d*)")


@dataclass(frozen=True)
class Quota:
    """A quota as Service Quotas knows it. For vCPUs: the families and the market that it is about."""

    code: str
    name: str
    service: str = "ec2"
    families: tuple[str, ...] = ()
    market: str = ""
    generations: range = range(1000)

    @property
    def value(self) -> float:
        return CLOUD.quotas.get(self.code, UNLIMITED)


ADDRESSES = Quota("L-0263D0A3", "EC2-VPC Elastic IPs")
VPCS = Quota("L-F678F1CE", "VPCs per Region", "vpc")
NAT_GATEWAYS = Quota("L-FE5A380F", "NAT gateways per Availability Zone", "vpc")
VCPUS = (
    Quota("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", families=STANDARD, market=ON_DEMAND),
    Quota("L-417A185B", "Running On-Demand P instances", families=("p",), market=ON_DEMAND),
    Quota("L-DB2E81BA", "Running On-Demand G and VT instances", families=("g", "gr", "vt"), market=ON_DEMAND),
    Quota("L-2C3B7624", "Running On-Demand Trn instances", families=("trn",), market=ON_DEMAND),
    Quota("L-1945791B", "Running On-Demand Inf instances", families=("inf",), market=ON_DEMAND),
    Quota("L-6E869C2A", "Running On-Demand DL instances", families=("dl",), market=ON_DEMAND),
    Quota("L-F7808C92", "Running On-Demand HPC instances", families=("hpc",), market=ON_DEMAND),
    Quota("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", families=STANDARD, market=SPOT),
    Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", families=("p",), market=SPOT, generations=range(2, 5)),
    Quota("L-C4BD4855", "All P5 Spot Instance Requests", families=("p",), market=SPOT, generations=range(5, 6)),
    Quota("L-3819A6DF", "All G and VT Spot Instance Requests", families=("g", "gr", "vt"), market=SPOT),
    Quota("L-6B0D517C", "All Trn Spot Instance Requests", families=("trn",), market=SPOT),
    Quota("L-B5D1601B", "All Inf Spot Instance Requests", families=("inf",), market=SPOT),
    Quota("L-85EED4F7", "All DL Spot Instance Requests", families=("dl",), market=SPOT),
)
QUOTAS = {quota.code: quota for quota in (*VCPUS, ADDRESSES, VPCS, NAT_GATEWAYS)}


def values() -> dict[str, float]:
    """The quotas by their codes."""
    return {code: quota.value for code, quota in QUOTAS.items()}


def set_values(changes: dict[str, float | None]) -> None:
    """Change quotas; None for plenty. Raises ValueError for an unknown code or a bad value."""
    for code, value in changes.items():
        if code not in QUOTAS:
            raise ValueError(f"there is no quota {code!r}, but {', '.join(QUOTAS)}")
        if value is None:
            CLOUD.quotas.pop(code, None)
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise ValueError(f"the quota {code} is {value!r}, not a number from 0 up or null")
        else:
            CLOUD.quotas[code] = float(value)


def check_vcpus(backend: EC2Backend, instance_type: str, market: str, count: int) -> None:
    """Raise VcpuLimitExceeded or MaxSpotInstanceCountExceeded when so many more instances exceed their quota."""
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


def _addresses(response: EC2Response) -> None:
    if len(response.ec2_backend.addresses) >= ADDRESSES.value:
        raise EC2ClientError("AddressLimitExceeded", "The maximum number of addresses has been reached.")


def _vpcs(response: EC2Response) -> None:
    if len(response.ec2_backend.vpcs) >= VPCS.value:
        raise EC2ClientError("VpcLimitExceeded", "The maximum number of VPCs has been reached.")


def _nat_gateways(response: EC2Response) -> None:
    backend, token = response.ec2_backend, response._get_param("ClientToken")
    zone = backend.get_subnet(response._get_param("SubnetId")).availability_zone
    alive = [each for each in backend.nat_gateways.values() if each.state in ("pending", "available")]
    if token and any(each.client_token == token for each in alive):
        return
    if sum(1 for each in alive if backend.get_subnet(each.subnet_id).availability_zone == zone) >= NAT_GATEWAYS.value:
        raise EC2ClientError("NatGatewayLimitExceeded", "The maximum number of NAT Gateways has been reached.")


def _limited(action: str, check: Callable[[EC2Response], None]) -> None:
    moto_call = getattr(EC2Response, action)

    def call(self: EC2Response) -> Any:
        check(self)
        return moto_call(self)

    call.__name__ = action
    override(EC2Response)(call)


for _action, _check in (("allocate_address", _addresses), ("create_vpc", _vpcs), ("create_nat_gateway", _nat_gateways)):
    _limited(_action, _check)


@override(ServiceQuotasResponse)
def list_service_quotas(self: ServiceQuotasResponse) -> str:
    """All quotas of a service, on one page."""
    return json.dumps({"Quotas": _described(self, json.loads(self.body)["ServiceCode"])})


@override(ServiceQuotasResponse)
def get_service_quota(self: ServiceQuotasResponse) -> str:
    wanted = json.loads(self.body)
    for quota in _described(self, wanted["ServiceCode"]):
        if quota["QuotaCode"] == wanted["QuotaCode"]:
            return json.dumps({"Quota": quota})
    raise NoSuchResource


def _described(response: ServiceQuotasResponse, service: str) -> list[dict[str, Any]]:
    """The quotas of a service; for the VPC service those of moto too. Raises NoSuchResource."""
    names = {"ec2": "Amazon Elastic Compute CloudState (Amazon EC2)", "vpc": "Amazon Virtual Private CloudState (Amazon VPC)"}
    if service not in names:
        raise NoSuchResource
    found = {each["QuotaCode"]: each for each in VPC_DEFAULT_QUOTAS if each["ServiceCode"] == service}
    for quota in QUOTAS.values():
        if quota.service == service:
            arn = f"arn:aws:servicequotas:{response.region}:{response.current_account}:{service}/{quota.code}"
            found[quota.code] = {
                "Adjustable": True,
                "GlobalQuota": False,
                "QuotaArn": arn,
                "QuotaCode": quota.code,
                "QuotaName": quota.name,
                "ServiceCode": service,
                "ServiceName": names[service],
                "Unit": "None",
                "Value": quota.value,
            }
    return list(found.values())
