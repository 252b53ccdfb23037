# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The services that a region offers through endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..client import AwsClient, ClusterError
from ..message_parts import P


def offered(cloud: AwsClient) -> dict[str, dict[str, Any]]:
    """Return the descriptions of the services with interface endpoints, keyed by short name.

    For example, the short name is `ssm` for both `com.amazonaws.us-east-1.ssm` and `cn.com.amazonaws.cn-north-1.ssm`.
    """
    return _with(cloud, "Interface")


def gateway(cloud: AwsClient, name: str) -> str:
    """Return the full name of a service with gateway endpoints. Raises ClusterError if the region does not offer the service."""
    found = _with(cloud, "Gateway").get(name)
    if not found:
        raise ClusterError(f"{P}vpc_id: {cloud.region} offers no gateway endpoint for {name}. Use an existing VPC ({P}vpc_id).")
    return str(found["ServiceName"])


def _with(cloud: AwsClient, endpoint_type: str) -> dict[str, dict[str, Any]]:
    filters = [{"Name": "service-type", "Values": [endpoint_type]}]
    services = cloud.retrieve_once("ec2", "describe_vpc_endpoint_services", "ServiceDetails", Filters=filters)
    return {short_name(item["ServiceName"], cloud.region): item for item in services}


def service_of(endpoint: Mapping[str, Any], region: str) -> str:
    """Return the short name of an endpoint's service, or an empty string for an endpoint of VPC Lattice, which has no service."""
    return short_name(endpoint.get("ServiceName", ""), region)


def short_name(service: str, region: str) -> str:
    """Return the part of a service's name after the region."""
    return service.split(f".{region}.", 1)[-1]
