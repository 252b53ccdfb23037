# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The services that a region offers through interface endpoints."""

from __future__ import annotations

from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AwsClient


def offered(cloud: AwsClient) -> dict[str, dict[str, Any]]:
    """Return the descriptions of the services, keyed by short name.

    For example, the short name is `ssm` for both `com.amazonaws.us-east-1.ssm` and `cn.com.amazonaws.cn-north-1.ssm`.
    """
    services = cloud.retrieve_once("ec2", "describe_vpc_endpoint_services", "ServiceDetails")
    interfaces = [item for item in services if any(kind["ServiceType"] == "Interface" for kind in item["ServiceType"])]
    return {short_name(item["ServiceName"], cloud.region): item for item in interfaces}


def short_name(service: str, region: str) -> str:
    """Return the part of a service's name after the region."""
    return service.split(f".{region}.", 1)[-1]
