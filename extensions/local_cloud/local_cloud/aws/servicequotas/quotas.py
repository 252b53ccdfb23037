"""Service quotas: their values, and the API that lists them."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.resources.default_quotas.vpc import VPC_DEFAULT_QUOTAS
from moto.servicequotas.responses import ServiceQuotasResponse

from ..capacity import ON_DEMAND, SPOT
from ..context import CLOUD
from ..override import override

# The value of quotas that nobody has changed. This value is so high that no test reaches it by accident.
UNLIMITED = 1_000_000.0
STANDARD = ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z")


@dataclass(frozen=True)
class Quota:
    """A service quota. A vCPU quota applies to certain instance families and generations in one market."""

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
# The quotas of a new account. On AWS, the quota for standard instances in a new account is between 5 and 64 vCPUs.
NEW_ACCOUNT: dict[str, float | None] = {
    **{quota.code: 32.0 if quota.families == STANDARD else 0.0 for quota in VCPUS},
    **{quota.code: 5.0 for quota in (ADDRESSES, VPCS, NAT_GATEWAYS)},
}


def values() -> dict[str, float]:
    """Return the quota values by code."""
    return {code: quota.value for code, quota in QUOTAS.items()}


def set_values(changes: dict[str, float | None]) -> None:
    """Set quotas. None restores the default. Raises `ValueError` for an unknown code or an invalid value."""
    for code, value in changes.items():
        if code not in QUOTAS:
            raise ValueError(f"Unknown quota {code!r}. Known quotas: {', '.join(QUOTAS)}.")
        if value is None:
            CLOUD.quotas.pop(code, None)
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise ValueError(f"Quota {code}: {value!r} is not a number of at least 0. Use null for the default.")
        else:
            CLOUD.quotas[code] = float(value)


@override(ServiceQuotasResponse)
def list_service_quotas(self: ServiceQuotasResponse) -> str:
    """Return all quotas of a service on one page."""
    return json.dumps({"Quotas": _described(self, json.loads(self.body)["ServiceCode"])})


@override(ServiceQuotasResponse)
def get_service_quota(self: ServiceQuotasResponse) -> str:
    wanted = json.loads(self.body)
    for quota in _described(self, wanted["ServiceCode"]):
        if quota["QuotaCode"] == wanted["QuotaCode"]:
            return json.dumps({"Quota": quota})
    raise NoSuchResource


@override(ServiceQuotasResponse)
def request_service_quota_increase(self: ServiceQuotasResponse) -> str:
    """Approve a quota increase immediately. On AWS, approval takes minutes to days and may require a justification."""
    wanted = json.loads(self.body)
    found = {quota["QuotaCode"]: quota for quota in _described(self, wanted["ServiceCode"])}
    if wanted["QuotaCode"] not in QUOTAS or wanted["QuotaCode"] not in found:
        raise NoSuchResource
    quota, value = found[wanted["QuotaCode"]], float(wanted["DesiredValue"])
    if value <= quota["Value"]:
        raise JsonRESTError("IllegalArgumentException", "You must provide a quota value greater than the current quota value.")
    set_values({quota["QuotaCode"]: value})
    names = ("GlobalQuota", "QuotaArn", "QuotaCode", "QuotaName", "ServiceCode", "ServiceName", "Unit")
    request = {"Id": uuid.uuid4().hex, "DesiredValue": value, "Status": "PENDING", "QuotaRequestedAtLevel": "ACCOUNT"}
    return json.dumps({"RequestedQuota": {**request, **{name: quota[name] for name in names}}})


def _described(response: ServiceQuotasResponse, service: str) -> list[dict[str, Any]]:
    """Return the quotas of a service. The quotas of Amazon VPC include those that moto defines. Raises `NoSuchResource`."""
    names = {"ec2": "Amazon Elastic Compute Cloud (Amazon EC2)", "vpc": "Amazon Virtual Private Cloud (Amazon VPC)"}
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
