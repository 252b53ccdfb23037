# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a cluster's shared storage consists of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._network.definition import STORAGE_GROUP, subnet
from .._plan.resources import Address, Ref, Wanted

FILE_SYSTEM = Address("file_system", "main")
FORMER = Address("file_system", "former")
"""One of the cluster's own that it has left for an adopted one."""


def mount_target(zone: str) -> Address:
    return Address("mount_target", zone)


def stale_mount_target(zone: str, file_system_id: str) -> Address:
    """One of a file system that the cluster used before."""
    return Address("mount_target", f"{zone}-{file_system_id}")


def host_address(targets: Mapping[str, str], zones: Sequence[str], *, same_vpc: bool, one_zone: str | None) -> str:
    """The address that all hosts mount; empty where the file system's name leads each of them to the mount target of its zone.

    The name means something only in the VPC of the mount targets, and only in zones that have one, of which a One Zone file system
    has a single one. C(targets) are the addresses by zone; the cluster's first zone that has one is taken, else any.
    """
    if not targets or (same_vpc and (one_zone is None or set(zones) <= {one_zone})):
        return ""
    return targets[next((zone for zone in zones if zone in targets), min(targets))]


def file_system(options: Mapping[str, Any], tags: Callable[[Address], dict[str, str]]) -> Wanted:
    return Wanted(
        FILE_SYSTEM,
        {
            "encrypted": options["encrypted"],
            "kms_key": options["kms_key_id"],
            "performance_mode": options["performance_mode"],
            "throughput_mode": options["throughput_mode"],
            "provisioned_throughput": options["provisioned_throughput"],
            "tags": tags(FILE_SYSTEM),
        },
    )


def mount_targets(zones: Sequence[str]) -> list[Wanted]:
    """One mount target in the private subnet of every zone."""
    return [
        Wanted(
            mount_target(zone),
            {
                "file_system": Ref(FILE_SYSTEM),
                "subnet": Ref(subnet("private", zone)),
                "security_groups": frozenset({Ref(STORAGE_GROUP)}),
            },
        )
        for zone in zones
    ]
