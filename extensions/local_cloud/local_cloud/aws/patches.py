"""Everything that changes moto: importing this applies it."""

from __future__ import annotations

from . import (  # noqa: F401
    activities,
    addresses,
    buckets,
    capacity_reservations,
    console,
    dependencies,
    endpoints,
    file_system_access,
    file_systems,
    fsx,
    group_calls,
    groups,
    images,
    instances,
    keys,
    launch,
    launch_templates,
    messages,
    network,
    placement_groups,
    quotas,
    simulation,
    speed,
    spot,
    tags,
)
