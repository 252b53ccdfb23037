# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads and changes EFS file systems and their mount targets. One AWS call per step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Mapping

from .._aws import CLUSTER_TAG, COMPONENT_TAG, KEY_TAG, Cloud, CloudError, error_code, is_missing, tag_dict, tag_list
from .._network.definition import STORAGE_GROUP
from .._plan.plan import Kind
from .._plan.resources import Address, Found
from .definition import FILE_SYSTEM

try:
    from botocore.exceptions import ClientError
except ImportError:
    pass  # AnsibleAWSModule reports it

COMPONENT = "file_system"
GONE = ("deleting", "deleted")
MOUNT_TARGET_INTERFACE = re.compile(r"EFS mount target for (fs-[0-9a-f]+) ")
Properties = Mapping[str, Any]


def read(cloud: Cloud, adopted_id: str | None, network: Iterable[Found], *, search: bool = False) -> list[Found]:
    """The cluster's file system, or the one it adopts, and the mount targets through which this cluster uses it.

    With C(search) an adopted one is found by its mount targets, too, without being named.

    Mount targets have no tags: those of an adopted file system are the cluster's own if they lie in its subnets behind its
    security group. The attribute C(elsewhere) lists other VPCs in which the file system has mount targets. Raises CloudError
    if the adopted file system does not exist.
    """
    network = list(network)
    file_system = _adopted(cloud, adopted_id) if adopted_id else _owned(cloud)
    if not file_system and search:
        file_system = _in_use(cloud, network)
    if not file_system:
        return []
    targets = [
        target
        for target in cloud.retrieve("efs", "describe_mount_targets", "MountTargets", FileSystemId=file_system.id)
        if target["LifeCycleState"] not in GONE
    ]
    vpc = next((item.id for item in network if item.address.kind == "vpc"), None)
    elsewhere = sorted({target["VpcId"] for target in targets} - {vpc})
    own_groups = {item.id for item in network if item.address.kind == "security_group"}
    here = [target for target in targets if target["VpcId"] == vpc]
    return [replace(file_system, attributes={"elsewhere": elsewhere}), *_mount_targets(cloud, file_system.id, here, own_groups)]


def _adopted(cloud: Cloud, file_system_id: str) -> Found:
    try:
        description = cloud.efs.describe_file_systems(FileSystemId=file_system_id)["FileSystems"][0]
    except ClientError as error:
        if is_missing(error) or error_code(error) in ("BadRequest", "ValidationException"):
            raise CloudError(
                f"file_system_id: {file_system_id} does not exist in {cloud.region}. "
                "Give the id of a file system there, or none to have one created."
            ) from error
        raise
    owner = tag_dict(description.get("Tags", [])).get(CLUSTER_TAG)
    return _found(cloud, FILE_SYSTEM.key, description, adopted=owner != cloud.cluster)


def _owned(cloud: Cloud) -> Found | None:
    matches = [
        _found(cloud, tags[KEY_TAG], description)
        for description in cloud.retrieve("efs", "describe_file_systems", "FileSystems")
        for tags in [tag_dict(description.get("Tags", []))]
        if tags.get(CLUSTER_TAG) == cloud.cluster and tags.get(COMPONENT_TAG) == COMPONENT and description["LifeCycleState"] not in GONE
    ]
    if len(matches) > 1:
        ids = " and ".join(item.id for item in matches)
        raise CloudError(
            f"{ids} are all tagged as the file system of {cloud.cluster}. "
            "Name the right one in file_system_id, or take the tags off the other."
        )
    return matches[0] if matches else None


def _in_use(cloud: Cloud, network: Iterable[Found]) -> Found | None:
    """The file system that has a mount target behind this cluster's security group; its interface names it."""
    group = next((item.id for item in network if item.address == STORAGE_GROUP), None)
    if not group:
        return None
    interfaces = cloud.retrieve(
        "ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=[{"Name": "group-id", "Values": [group]}]
    )
    names = [MOUNT_TARGET_INTERFACE.match(interface.get("Description", "")) for interface in interfaces]
    return next((_adopted(cloud, name.group(1)) for name in names if name), None)


def _found(cloud: Cloud, key: str, description: Mapping[str, Any], *, adopted: bool = False) -> Found:
    return Found(
        Address("file_system", key),
        description["FileSystemId"],
        {
            "encrypted": description["Encrypted"],
            "performance_mode": description["PerformanceMode"],
            "tags": cloud.comparable_tags(description.get("Tags", [])),
        },
        adopted=adopted,
    )


def refuse_elsewhere(found: Iterable[Found]) -> None:
    """Raises CloudError if the file system can only be mounted in another VPC."""
    for item in found:
        if item.address == FILE_SYSTEM and item.attributes["elsewhere"]:
            raise CloudError(
                f"file_system_id: {item.id} has its mount targets in {item.attributes['elsewhere'][0]}, and a file system can have "
                "them in one VPC only. Delete those mount targets, or give another file system."
            )


def _mount_targets(cloud: Cloud, file_system_id: str, targets: list[dict[str, Any]], own_groups: set[str]) -> Iterator[Found]:
    with ThreadPoolExecutor(8) as pool:
        groups = pool.map(
            lambda target: cloud.efs.describe_mount_target_security_groups(MountTargetId=target["MountTargetId"])["SecurityGroups"], targets
        )
        for target, group_ids in zip(targets, groups):
            yield Found(
                Address("mount_target", target["AvailabilityZoneName"]),
                target["MountTargetId"],
                {"file_system": file_system_id, "subnet": target["SubnetId"], "security_groups": frozenset(group_ids)},
                {"address": target["IpAddress"]},
                adopted=not own_groups & set(group_ids),
            )


def _create_file_system(cloud: Cloud, address: Address, properties: Properties) -> Found:
    try:
        created = cloud.efs.create_file_system(
            CreationToken=f"{cloud.cluster}-{address.key}",
            Encrypted=properties["encrypted"],
            PerformanceMode=properties["performance_mode"],
            Tags=tag_list(properties["tags"]),
        )
    except ClientError as error:
        if error_code(error) != "FileSystemAlreadyExists":
            raise
        raise CloudError(
            f"{error.response.get('FileSystemId', 'A file system')} was created for a cluster named {cloud.cluster} before, "
            "and its tags are gone. Adopt it with file_system_id, or delete it."
        ) from error
    return Found(address, created["FileSystemId"], properties)


def _settle_file_system(cloud: Cloud, found: Found) -> Found:
    def available() -> Found | None:
        state = cloud.once_visible(cloud.efs.describe_file_systems, FileSystemId=found.id)["FileSystems"][0]["LifeCycleState"]
        return found if state == "available" else None

    return cloud.wait_until(f"File system {found.id}", available)


def _update_file_system(cloud: Cloud, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    cloud.efs.tag_resource(ResourceId=found.id, Tags=tag_list(properties["tags"]))


def _delete_file_system(cloud: Cloud, found: Found) -> None:
    others = cloud.retrieve("efs", "describe_mount_targets", "MountTargets", FileSystemId=found.id)
    if others:
        raise CloudError(f"File system {found.id} is used in {others[0]['SubnetId']} too, so it stays. Delete that mount target first.")
    cloud.once_unused(cloud.efs.delete_file_system, FileSystemId=found.id)

    def gone() -> bool:
        try:
            return cloud.efs.describe_file_systems(FileSystemId=found.id)["FileSystems"][0]["LifeCycleState"] == "deleted"
        except ClientError as error:
            if is_missing(error):
                return True
            raise

    cloud.wait_until(f"Deletion of file system {found.id}", gone)


def _create_mount_target(cloud: Cloud, address: Address, properties: Properties) -> Found:
    created = cloud.once_visible(
        cloud.efs.create_mount_target,
        "IncorrectFileSystemLifeCycleState",
        "SecurityGroupNotFound",
        FileSystemId=properties["file_system"],
        SubnetId=properties["subnet"],
        SecurityGroups=sorted(properties["security_groups"]),
    )
    return Found(address, created["MountTargetId"], properties, {"address": created.get("IpAddress")})


def _settle_mount_target(cloud: Cloud, found: Found) -> Found:
    def available() -> Found | None:
        target = cloud.once_visible(cloud.efs.describe_mount_targets, "MountTargetNotFound", MountTargetId=found.id)["MountTargets"][0]
        return found if target["LifeCycleState"] == "available" else None

    return cloud.wait_until(f"Mount target {found.id}", available)


def _update_mount_target(cloud: Cloud, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    cloud.efs.modify_mount_target_security_groups(MountTargetId=found.id, SecurityGroups=sorted(properties["security_groups"]))


def _delete_mount_target(cloud: Cloud, found: Found) -> None:
    cloud.once_unused(cloud.efs.delete_mount_target, MountTargetId=found.id)

    def gone() -> bool:
        targets = cloud.retrieve("efs", "describe_mount_targets", "MountTargets", FileSystemId=found.properties["file_system"])
        return found.id not in {target["MountTargetId"] for target in targets}

    cloud.wait_until(f"Deletion of mount target {found.id}", gone)


KINDS = (
    Kind(
        "file_system",
        _create_file_system,
        _delete_file_system,
        update=_update_file_system,
        settle=_settle_file_system,
        updatable=frozenset({"tags"}),
        deleted_after=("mount_target",),
        advice="A file system keeps this setting for life. Put the old value back, or copy the data to a new file system and adopt that.",
    ),
    Kind(
        "mount_target",
        _create_mount_target,
        _delete_mount_target,
        update=_update_mount_target,
        settle=_settle_mount_target,
        updatable=frozenset({"security_groups"}),
        deleted_after=("auto_scaling_group",),
    ),
)
