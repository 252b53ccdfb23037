"""Service Quotas lists the values of quotas."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import Control

from ..conftest import Account


def test_service_quotas(account: Account, control: Control) -> None:
    quotas = account.client("service-quotas")
    control.set_quotas({"L-417A185B": 192, "L-F678F1CE": 5})
    found = quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-417A185B")["Quota"]
    assert (found["QuotaName"], found["Value"]) == ("Running On-Demand P instances", 192.0)
    assert quotas.get_service_quota(ServiceCode="vpc", QuotaCode="L-F678F1CE")["Quota"]["Value"] == 5.0
    listed = {each["QuotaCode"]: each["Value"] for each in quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]}
    assert listed["L-417A185B"] == 192
    assert listed["L-DB2E81BA"] > 100_000
    for service, code in (("ec2", "L-00000000"), ("lunch", "L-417A185B")):
        with pytest.raises(ClientError, match="NoSuchResourceException"):
            quotas.get_service_quota(ServiceCode=service, QuotaCode=code)
    with pytest.raises(ValueError, match="L-00000000"):
        control.set_quotas({"L-00000000": 1})


def test_an_increase_is_approved(account: Account, control: Control) -> None:
    quotas = account.client("service-quotas")
    control.set_quotas({"L-417A185B": 0})
    asked = quotas.request_service_quota_increase(ServiceCode="ec2", QuotaCode="L-417A185B", DesiredValue=192)["RequestedQuota"]
    assert (asked["Status"], asked["QuotaName"], asked["DesiredValue"]) == ("PENDING", "Running On-Demand P instances", 192)
    assert quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-417A185B")["Quota"]["Value"] == 192
    for code, value, error in (("L-417A185B", 192, "IllegalArgumentException"), ("L-00000000", 1, "NoSuchResourceException")):
        with pytest.raises(ClientError, match=error):
            quotas.request_service_quota_increase(ServiceCode="ec2", QuotaCode=code, DesiredValue=value)
