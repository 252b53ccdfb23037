"""Everything that changes moto: importing this applies it."""

from __future__ import annotations

from . import moto_caching, tags  # noqa: F401
from .autoscaling import activities, api, groups  # noqa: F401
from .ec2 import (  # noqa: F401
    addresses,
    capacity_reservations,
    console_output,
    dependency_violations,
    error_messages,
    images,
    instances,
    launch,
    launch_templates,
    nat_gateways,
    placement_groups,
    quotas,
    spot,
    vpc_endpoints,
)
from .efs import access, file_systems  # noqa: F401
from .fsx import file_systems as fsx_file_systems  # noqa: F401
from .iam import policy_simulation  # noqa: F401
from .kms import keys  # noqa: F401
from .s3 import buckets  # noqa: F401
