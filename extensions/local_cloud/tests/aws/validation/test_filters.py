"""Filters that the API reference does not list are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.model import OperationModel
from local_cloud.aws.validation.filters import documented, find_unknown

from ..conftest import Account

SESSION = botocore.session.get_session()
DESCRIBING = [
    (service, name)
    for service in ("ec2", "autoscaling")
    for name in SESSION.get_service_model(service).operation_names
    if name.startswith(("Describe", "List"))
]


def operation(service: str, name: str) -> OperationModel:
    return SESSION.get_service_model(service).operation_model(name)


@pytest.mark.parametrize(
    ("service", "name", "parameter", "listed", "unlisted"),
    [
        ("ec2", "DescribeCapacityReservations", "Filters", {"instance-type", "end-date-type"}, {"capacity-reservation-id", "tag:"}),
        ("ec2", "DescribeInstances", "Filters", {"capacity-reservation-id", "tag:", "tag-key"}, {"tag", "x86_64", "Owner"}),
        ("ec2", "DescribeNatGateways", "Filter", {"nat-gateway-id", "tag:"}, {"pending"}),
        ("ec2", "DescribeSubnets", "Filters", {"availability-zone", "availabilityZone"}, {"zone"}),
        ("ec2", "DescribeTags", "Filters", {"tag:", "key"}, {"tag-key"}),
        ("autoscaling", "DescribeAutoScalingGroups", "Filters", {"tag:", "tag-key", "tag-value"}, {"key", "Status"}),
        ("autoscaling", "DescribeTags", "Filters", {"auto-scaling-group", "key"}, {"tag:", "tag-key"}),
        ("autoscaling", "DescribeScalingActivities", "Filters", {"Status"}, {"2000-01-18T08:15:00Z"}),
        ("fsx", "DescribeDataRepositoryAssociations", "Filters", {"file-system-id"}, {"association-id"}),
        ("fsx", "DescribeBackups", "Filters", {"file-system-id", "volume-id"}, {"backup-id"}),
    ],
)
def test_what_the_documentation_lists(service: str, name: str, parameter: str, listed: set[str], unlisted: set[str]) -> None:
    found = documented(operation(service, name))[parameter]
    assert listed <= found
    assert not unlisted & found


def test_names_are_read_from_nothing_but_lists_of_filters() -> None:
    names = [name for each in DESCRIBING for found in documented(operation(*each)).values() for name in found]
    assert len(names) > 1000
    assert [name for name in names if not name.replace("-", "").replace(".", "").replace(":", "").isalnum()] == []


@pytest.mark.parametrize(
    ("name", "filters", "refused"),
    [
        ("DescribeVpcs", [{"Name": "tag:deeplearning:cluster", "Values": ["x"]}, {"Name": "tag-key", "Values": ["x"]}], None),
        ("DescribeVpcs", [{"Name": "vpc-id", "Values": ["x"]}, {"Name": "vpc", "Values": ["x"]}], "vpc"),
        ("DescribeVpcs", [{"Name": "tag:", "Values": ["x"]}], "tag:"),
        ("DescribeVpcs", [{"Name": "tag", "Values": ["x"]}], "tag"),
        ("DescribeVpcs", [{"Name": "VPC-ID", "Values": ["x"]}], "VPC-ID"),
        ("DescribeVpcs", [{"Values": ["x"]}], "null"),
        ("DescribeVpcs", [{"Name": "cidr-block", "Values": ["x"]}], None),
        ("DescribeInternetGateways", [{"Name": "cidr-block", "Values": ["x"]}], "cidr-block"),
        ("DescribeVpcs", None, None),
        ("DescribeCapacityReservations", [{"Name": "tag:a", "Values": ["x"]}], "tag:a"),
        ("DescribeIpams", [{"Name": "anything", "Values": ["x"]}], None),
    ],
)
def test_what_is_refused(name: str, filters: Any, refused: str | None) -> None:
    assert find_unknown(operation("ec2", name), {"Filters": filters}) == refused


@pytest.mark.parametrize(
    ("service", "ask", "code"),
    [
        ("ec2", lambda client, wrong: client.describe_capacity_reservations(Filters=wrong), "InvalidParameterValue"),
        ("ec2", lambda client, wrong: client.describe_nat_gateways(Filter=wrong), "InvalidParameterValue"),
        ("ec2", lambda client, wrong: client.describe_instance_types(Filters=wrong), "InvalidParameterValue"),
        ("autoscaling", lambda client, wrong: client.describe_auto_scaling_groups(Filters=wrong), "ValidationError"),
        ("autoscaling", lambda client, wrong: client.describe_tags(Filters=wrong), "ValidationError"),
    ],
)
def test_a_request_with_an_unlisted_filter_is_refused(account: Account, service: str, ask: Callable[..., Any], code: str) -> None:
    """The request is refused even if there are no resources to filter."""
    with pytest.raises(ClientError) as caught:
        ask(account.client(service), [{"Name": "capacity-reservation-id", "Values": ["cr-00000000000000000"]}])
    assert caught.value.response["Error"]["Code"] == code
    assert "The filter 'capacity-reservation-id' is invalid" in caught.value.response["Error"]["Message"]


def test_a_listed_filter_that_is_not_available_is_not_called_invalid(account: Account) -> None:
    account.run(account.subnets("a")[0])
    with pytest.raises(ClientError, match=r"UnsupportedOperation.*'affinity' is not available in the local cloud"):
        account.ec2.describe_instances(Filters=[{"Name": "affinity", "Values": ["host"]}])
