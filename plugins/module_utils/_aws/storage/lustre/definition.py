# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The resources of a cluster's FSx for Lustre file system. Performs no I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...network.definition import STORAGE_GROUP, subnet
from ...plan.resources import Address, Ref, Wanted

LUSTRE = Address("lustre_file_system", "main")
# The port ranges on which servers and clients connect to each other: protocol, first port and last port.
PORTS = (("tcp", 988, 988), ("tcp", 1018, 1023))
PERSISTENT = "PERSISTENT_2"
# The events that a link to S3 imports or exports.
EVENTS = frozenset({"NEW", "CHANGED", "DELETED"})


def data_repository(path: str) -> Address:
    """Return the `Address` of the link between a directory on the file system and S3."""
    return Address("data_repository_association", path)


def wanted(options: Mapping[str, Any], zone: str, tags: Callable[[Address], dict[str, str]]) -> list[Wanted]:
    """Return a file system in the private subnet of `zone`, and its links to S3."""
    deployment = options["lustre_deployment"]
    persistent = deployment == PERSISTENT
    file_system = Wanted(
        LUSTRE,
        {
            "capacity": options["lustre_capacity"],
            "deployment": deployment,
            # AWS determines the throughput and the key of a scratch file system
            "throughput": options["lustre_throughput"] if persistent else None,
            "kms_key": options["kms_key_id"] if persistent else None,
            "compression": options["lustre_compression"],
            "subnet": Ref(subnet("private", zone)),
            "security_groups": frozenset({Ref(STORAGE_GROUP)}),
            "tags": tags(LUSTRE),
        },
    )
    return [file_system, *(_link(item, tags) for item in options["lustre_data_repositories"])]


def _link(repository: Mapping[str, Any], tags: Callable[[Address], dict[str, str]]) -> Wanted:
    address = data_repository(repository["path"])
    return Wanted(
        address,
        {
            "file_system": Ref(LUSTRE),
            "s3": repository["s3"].rstrip("/"),
            "imports": EVENTS if repository["import_changes"] else frozenset(),
            "exports": EVENTS if repository["export_changes"] else frozenset(),
            "tags": tags(address),
        },
    )
