# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The resources of a cluster's shared storage on EFS. Performs no I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import policy_documents
from ...network.definition import STORAGE_GROUP, subnet
from ...plan.resources import Address, Ref, Wanted

FILE_SYSTEM = Address("file_system", "main")
POLICY = Address("file_system_policy", "main")
# The `Id` element of the policies that the collection creates.
POLICY_ID = "deeplearning.cluster"


ACCESS_POINT_KIND = "access_point"
# The login user of Ubuntu, Debian and Amazon Linux. If EFS creates the directory, this user owns it.
OWNER = {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0755"}


def access_point(directory: str, former_file_system: str = "") -> Address:
    """Return the `Address` of the access point for a directory.

    For an access point on a former file system, the `Address` also contains the ID of that file system.
    """
    return Address(ACCESS_POINT_KIND, f"{directory}-{former_file_system}" if former_file_system else directory)


def wanted_access_point(directory: str, tags: Callable[[Address], dict[str, str]]) -> Wanted:
    """Return the access point of a directory. The access point enforces no user identity, because jobs do not run as the login user."""
    address = access_point(directory)
    return Wanted(address, {"file_system": Ref(FILE_SYSTEM), "tags": tags(address)})


def mount_target(zone: str) -> Address:
    return Address("mount_target", zone)


def stale_mount_target(zone: str, file_system_id: str) -> Address:
    return Address("mount_target", f"{zone}-{file_system_id}")


def host_address(targets: Mapping[str, str], zones: Sequence[str], *, same_vpc: bool, one_zone: str | None) -> str:
    """Return the address that all hosts use to mount the file system, or an empty string if all hosts can use its DNS name.

    The DNS name resolves to the mount target in the host's zone. The DNS name resolves only in the VPC of the mount targets, and only in
    zones with a mount target. A One Zone file system has only one mount target. `targets` maps zones to addresses. The first zone of the
    cluster that has a mount target takes precedence.
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


def file_system_policy(*, tls_required: bool) -> Wanted:
    return Wanted(POLICY, {"file_system": Ref(FILE_SYSTEM), "policy": comparable_policy(policy_document(tls_required=tls_required))})


def policy_document(*, tls_required: bool) -> dict[str, Any]:
    """Return the policy of the file system. Clients do not use IAM authorization, so the mount targets' security groups control access.

    https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
    """
    allow = {
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": [f"elasticfilesystem:{action}" for action in ("ClientMount", "ClientWrite", "ClientRootAccess")],
        "Condition": {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}},
    }
    deny = {"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    return {"Version": "2012-10-17", "Id": POLICY_ID, "Statement": [allow, deny] if tls_required else [allow]}


def comparable_policy(document: Mapping[str, Any]) -> str:
    """Return a policy in a form that does not depend on what EFS changes: it adds the file system's ARN."""
    return policy_documents.comparable(document, without=("Sid", "Resource"))


def mount_targets(zones: Sequence[str]) -> list[Wanted]:
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
