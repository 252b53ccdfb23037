"""Tests of the service names of VPC endpoints, and of the requests for them: AWS describes only services with the type of endpoint."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import endpoint_services

SERVICES = {
    "Gateway": ["com.amazonaws.cn-north-1.s3"],
    "Interface": ["com.amazonaws.cn-north-1.s3", "cn.com.amazonaws.cn-north-1.ssm"],
}


class China:
    region = "cn-north-1"

    def retrieve_once(self, service, operation, key, Filters):  # noqa: N803
        assert (service, operation, key) == ("ec2", "describe_vpc_endpoint_services", "ServiceDetails")
        ((kind,),) = [each["Values"] for each in Filters if each["Name"] == "service-type"]
        return [{"ServiceName": name} for name in SERVICES[kind]]


def test_gateway():
    assert endpoint_services.gateway(China(), "s3") == "com.amazonaws.cn-north-1.s3"
    with pytest.raises(ClusterError, match="cn-north-1 offers no gateway endpoint for ssm"):
        endpoint_services.gateway(China(), "ssm")


def test_offered():
    assert endpoint_services.offered(China()).keys() == {"s3", "ssm"}


@pytest.mark.parametrize(
    ("service", "region", "name"),
    [
        ("com.amazonaws.us-east-1.ssm", "us-east-1", "ssm"),
        ("cn.com.amazonaws.cn-north-1.ec2", "cn-north-1", "ec2"),
        ("com.amazonaws.us-east-1.ecr.api", "us-east-1", "ecr.api"),
    ],
)
def test_names_of_services(service, region, name):
    assert endpoint_services.short_name(service, region) == name
