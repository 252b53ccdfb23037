# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a cluster's shared storage consists of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .._network.definition import STORAGE_GROUP, subnet
from .._plan.resources import Address, Ref, Wanted

FILE_SYSTEM = Address("file_system", "main")


def mount_target(zone: str) -> Address:
    return Address("mount_target", zone)


def wanted(zones: Sequence[str], tags: Callable[[Address], dict[str, str]], *, encrypted: bool, performance_mode: str) -> list[Wanted]:
    """A file system with one mount target in the private subnet of every zone."""
    return [
        Wanted(FILE_SYSTEM, {"encrypted": encrypted, "performance_mode": performance_mode, "tags": tags(FILE_SYSTEM)}),
        *(
            Wanted(
                mount_target(zone),
                {
                    "file_system": Ref(FILE_SYSTEM),
                    "subnet": Ref(subnet("private", zone)),
                    "security_groups": frozenset({Ref(STORAGE_GROUP)}),
                },
            )
            for zone in zones
        ),
    ]
