"""Everything that changes moto: importing this applies it."""

from __future__ import annotations

from . import (  # noqa: F401
    activities,
    addresses,
    console,
    dependencies,
    file_systems,
    group_calls,
    groups,
    images,
    instances,
    launch,
    launch_templates,
    messages,
    network,
    placement_groups,
    speed,
)
