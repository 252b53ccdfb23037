# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The endpoint and the security group that GuardDuty Runtime Monitoring adds to VPCs, and that prevent the deletion of the cluster's VPC.

GuardDuty does not delete these resources. https://docs.aws.amazon.com/guardduty/latest/ug/runtime-monitoring-agent-resource-clean-up.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..client import CLUSTER_TAG, AwsClient, tag_dict
from ..plan.resources import Address, Found, Properties
from . import security_groups, vpc_endpoints
from .tagged import network_kind

TAG = "GuardDutyManaged"
ENDPOINT, GROUP = "guardduty_endpoint", "guardduty_security_group"


def read(cloud: AwsClient, vpc_id: str) -> Iterator[Found]:
    """Yield the resources of GuardDuty in a VPC. Resources with the cluster's tag belong to the cluster, whatever other tags they have."""
    managed = [{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": f"tag:{TAG}", "Values": ["true"]}]
    for endpoint in cloud.retrieve("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=managed):
        id_ = endpoint["VpcEndpointId"]
        if not vpc_endpoints.endpoint_is_gone(endpoint) and not _is_own(cloud, endpoint):
            yield Found(Address(ENDPOINT, id_), id_, {"vpc": vpc_id, "service": endpoint.get("ServiceName")})
    for group in cloud.retrieve("ec2", "describe_security_groups", "SecurityGroups", Filters=managed):
        if not _is_own(cloud, group):
            yield Found(Address(GROUP, group["GroupId"]), group["GroupId"], {"vpc": vpc_id, "name": group["GroupName"]})


def _is_own(cloud: AwsClient, item: Mapping[str, Any]) -> bool:
    return tag_dict(item["Tags"]).get(CLUSTER_TAG) == cloud.cluster


def _never(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    raise NotImplementedError(f"only GuardDuty creates {address}")


KINDS = (
    network_kind(ENDPOINT, _never, vpc_endpoints.delete, deleted_after=("auto_scaling_group",)),
    network_kind(GROUP, _never, security_groups.delete, deleted_after=(ENDPOINT,)),
)
