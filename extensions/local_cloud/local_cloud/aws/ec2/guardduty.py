"""GuardDuty Runtime Monitoring with automated agent configuration, which adds an endpoint and a security group to VPCs with instances.

Source: Amazon GuardDuty User Guide, "How Runtime Monitoring works with Amazon EC2 instances".
"""

from __future__ import annotations

from typing import Any

from ..context import CLOUD
from .vpc_endpoints import COMMON, PREFIXES, get_partition

TAGS = {"GuardDutyManaged": "true"}


def protect(instance: Any) -> None:
    """Add the endpoint and its security group to the VPC of a running instance, if GuardDuty monitors the account."""
    backend, vpc = instance.ec2_backend, instance.vpc_id
    service = f"{PREFIXES.get(get_partition(backend.region_name), COMMON)}.{backend.region_name}.guardduty-data"
    present = any(each.vpc_id == vpc and each.service_name == service for each in backend.vpc_end_points.values())
    if not CLOUD.monitored_by_guardduty or present:
        return
    name = f"GuardDutyManagedSecurityGroup-{vpc}"
    group = backend.create_security_group(name, "Associated with VPC endpoint of GuardDuty", vpc_id=vpc, tags=TAGS)
    backend.create_vpc_endpoint(
        vpc, service, "Interface", None, [], [instance.subnet_id], security_group_ids=[group.id], tags=TAGS, private_dns_enabled=True
    )
