"""Tests of the quota validators, and of the function that finds the quota for an instance type."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Alternative, Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators import account
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators.account import (
    Quota,
    VpcQuota,
    families,
    quotas,
    vcpu_quota,
)
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError

STANDARD = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
NAMES = (
    STANDARD,
    "Running On-Demand DL instances",
    "Running On-Demand G and VT instances",
    "Running On-Demand HPC instances",
    "Running On-Demand High Memory instances",
    "Running On-Demand Inf instances",
    "Running On-Demand P instances",
    "Running On-Demand Trn instances",
    "Running Dedicated p4d Hosts",
    "All G and VT Spot Instance Requests",
    "All P4, P3 and P2 Spot Instance Requests",
    "All P5 Spot Instance Requests",
    "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    "EC2-VPC Elastic IPs",
)
QUOTAS = [Quota(f"L-{number}", name, 0.0) for number, name in enumerate(NAMES)]


@pytest.mark.parametrize(
    ("name", "market", "expected"),
    [
        (STANDARD, "on-demand", ("a", "c", "d", "h", "i", "m", "r", "t", "z")),
        (STANDARD, "spot", ()),
        ("Running On-Demand G and VT instances", "on-demand", ("g", "vt")),
        ("All P4, P3 and P2 Spot Instance Requests", "spot", ("p4", "p3", "p2")),
        ("VPCs per Region", "on-demand", ()),
    ],
)
def test_families_from_the_name_of_a_quota(name, market, expected):
    assert families(name, market) == expected


@pytest.mark.parametrize(
    ("instance_type", "market", "expected"),
    [
        ("p4d.24xlarge", "on-demand", "Running On-Demand P instances"),
        ("p4d.24xlarge", "spot", "All P4, P3 and P2 Spot Instance Requests"),
        ("p5.48xlarge", "spot", "All P5 Spot Instance Requests"),
        ("p6-b200.48xlarge", "spot", None),
        ("g6e.xlarge", "spot", "All G and VT Spot Instance Requests"),
        ("gr6.4xlarge", "on-demand", "Running On-Demand G and VT instances"),
        ("trn1.32xlarge", "on-demand", "Running On-Demand Trn instances"),
        ("t3.micro", "on-demand", STANDARD),
        ("inf2.xlarge", "on-demand", "Running On-Demand Inf instances"),
        ("im4gn.large", "on-demand", STANDARD),
        ("dl1.24xlarge", "on-demand", "Running On-Demand DL instances"),
        ("hpc7a.96xlarge", "on-demand", "Running On-Demand HPC instances"),
        ("u-6tb1.metal", "on-demand", None),
    ],
)
def test_the_quota_that_names_most_of_a_type_limits_it(instance_type, market, expected):
    quota = vcpu_quota(instance_type, market, QUOTAS)
    assert (quota.name if quota else None) == expected


NODES = Found(Address("nodes", "workers"), "", {"numbers": (1, 2, 3)})


@pytest.mark.parametrize(
    ("options", "found", "in_use", "count"),
    [
        ({}, [NODES], False, 3),
        ({}, [NODES], True, 0),
        ({"worker_minimum": 1}, [NODES], False, 2),
        ({}, [], False, 0),
        ({"replace_nodes": True}, [NODES], False, 0),
        ({"worker_count": 3}, [NODES], False, 0),
        ({"worker_count": None}, [NODES], False, 0),
        ({"instance_type": None}, [NODES], False, 0),
    ],
)
def test_the_vcpus_of_a_later_replacement(monkeypatch, options, found, in_use, count):
    """A different validator checks the nodes that this run launches."""
    monkeypatch.setattr(account.capacity, "choices", lambda *_: [None])
    monkeypatch.setattr(account.capacity, "is_in_use", lambda *_: in_use)
    given = {"instance_type": "p4d.24xlarge", "worker_count": 2, "worker_minimum": None, "replace_nodes": False, "master_market": None}
    assert account.ReplacementQuota().needed(Request(None, {**given, **options}), found) == count


@pytest.mark.parametrize(
    ("master_market", "too_low", "messages"),
    [
        (None, {"spot"}, ["3 spot"]),
        (None, {"on-demand"}, []),
        ("on-demand", {"spot"}, ["2 spot"]),
        ("on-demand", {"on-demand"}, ["1 on-demand"]),
        ("on-demand", {"spot", "on-demand"}, ["2 spot", "1 on-demand"]),
    ],
)
def test_the_vcpus_of_a_master_in_another_market(monkeypatch, master_market, too_low, messages):
    def shortfall(_cloud, _instance_type, market, count):
        return f"{count} {market}" if market in too_low else None

    monkeypatch.setattr(account, "vcpu_shortfall", shortfall)
    monkeypatch.setattr(account.capacity, "choices", lambda *_: [Alternative("p4d.24xlarge", ("us-east-1a",), "spot")])
    given = {"instance_type": "p4d.24xlarge", "worker_count": 2, "worker_minimum": None, "replace_nodes": False}
    assert list(account.VcpuQuota().check(Request(None, {**given, "master_market": master_market}), [])) == messages


class FailingCloud:
    """An AWS client for which every API call fails."""

    def __init__(self, error):
        self.error = error

    def retrieve_once(self, *_arguments, **_more):
        raise self.error


def client_error(code):
    return ClientError({"Error": {"Code": code}}, "ListServiceQuotas")


@pytest.mark.parametrize(
    "error",
    [
        client_error("AccessDeniedException"),
        EndpointConnectionError(endpoint_url="https://a"),
        ConnectTimeoutError(endpoint_url="https://a"),
    ],
)
def test_quotas_that_cannot_be_read_are_unknown(error):
    assert quotas(FailingCloud(error), "ec2") is None


class CrowdedCloud:
    """An account that owns two VPCs and uses a third VPC, which a different account shares with this account."""

    region = "us-east-1"

    def __init__(self, quota):
        self.known = {
            "list_service_quotas": [{"QuotaCode": "L-F678F1CE", "QuotaName": "VPCs per Region", "Value": quota}],
            "describe_vpcs": [{"OwnerId": owner} for owner in ("111122223333", "111122223333", "444455556666")],
        }

    def retrieve_once(self, _service, operation, *_arguments, **_more):
        return self.known[operation]

    def client(self, _service):
        return self

    def get_caller_identity(self):
        return {"Account": "111122223333"}


@pytest.mark.parametrize(("quota", "findings"), [(2, 1), (3, 0)])
def test_vpcs_that_others_share_do_not_count(quota, findings):
    request = Request(CrowdedCloud(quota), {"vpc_id": None}, frozenset({"network"}))
    assert len(list(VpcQuota().check(request, []))) == findings


def test_other_errors_are_not_hidden():
    with pytest.raises(ClientError):
        quotas(FailingCloud(client_error("ServiceException")), "ec2")
