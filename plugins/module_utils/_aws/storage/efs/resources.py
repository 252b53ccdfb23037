# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, creates, changes and deletes EFS file systems, their policies, access points and mount targets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Mapping

from ...client import CLUSTER_TAG, AwsClient, ClientError, ClusterError, if_exists, tag_dict, tag_list
from ...component import Request
from ...error_codes import error_code
from ...message_parts import P
from ...network.definition import STORAGE_GROUP
from ...own_resources import read_own, readable, with_keys
from ...plan.planning import Kind
from ...plan.resources import Address, Found, Properties
from ..common import FileSystems, Lookup, comparable_key, find
from ..mounting_nodes import mounting_nodes
from ..routing import vpc_id
from .definition import (
    ACCESS_POINT_KIND,
    FILE_SYSTEM,
    OWNER,
    POLICY,
    POLICY_ID,
    access_point,
    comparable_policy,
    host_address,
    mount_target,
    policy_document,
    stale_mount_target,
)
from .options import NAME
from .tags import ACCESS_POINT_TAG, FILE_SYSTEM_TAG

GONE = ("deleting", "deleted")
FILE_SYSTEMS = FileSystems("efs", NAME, FILE_SYSTEM, "EFS file system", "file_system_id", lambda item: item["LifeCycleState"] not in GONE)
FILE_SYSTEM_LOOKUP = Lookup("file system", "efs", "describe_file_systems", "FileSystems", lambda id_: {"FileSystemId": id_})
ACCESS_POINT_LOOKUP = Lookup(
    "access point", "efs", "describe_access_points", "AccessPoints", lambda id_: {"AccessPointId": id_}, ("AccessPointNotFound",)
)
MOUNT_TARGET_LOOKUP = Lookup(
    "mount target", "efs", "describe_mount_targets", "MountTargets", lambda id_: {"MountTargetId": id_}, ("MountTargetNotFound",)
)
MOUNT_TARGET_INTERFACE = re.compile(r"EFS mount target for (fs-[0-9a-f]+) ")


def read(request: Request, network: Iterable[Found]) -> list[Found]:
    """Return the cluster's own or adopted file system, the mount targets that the cluster uses, and its leftover mount targets.

    Mount targets have no tags, so mount targets with the cluster's own security group belong to the cluster. If the file system is the
    cluster's own, mount targets with an adopted security group also belong to the cluster.

    The file system has five attributes. `address` is the address that hosts use instead of the DNS name, or an empty string. `vpc` is the
    VPC of the mount targets, or None if there are none. `addresses` maps zones to the addresses of the mount targets. `one_zone` is the
    zone of a One Zone file system, and None for other file systems. `size` is the size in bytes that EFS has measured last.
    """
    cloud, network = request.cloud, list(network)
    group = find(network, STORAGE_GROUP)
    behind = _behind(cloud, group) if group and not group.adopted else []
    own = FILE_SYSTEMS.owned(cloud)
    description = _choose(request, own, behind)
    main = description["FileSystemId"] if description else None
    found = _used(request, description, network, group) if description else []
    found += _read_access_points(request, main)
    if own and own["FileSystemId"] != main:
        found.append(replace(_found(request, own), address=FILE_SYSTEMS.former))
    left_over = [file_system_id for file_system_id in behind if file_system_id != main]
    return [*found, *(target for file_system_id in left_over if group for target in _left_over(cloud, group, file_system_id))]


def _choose(request: Request, own: dict[str, Any] | None, behind: Sequence[str]) -> dict[str, Any] | None:
    """Return the description of the file system that the cluster uses.

    The cluster uses the adopted file system or its own file system. If the options do not define a file system, the cluster can also use a
    file system in `behind`. `behind` lists the IDs of file systems whose mount targets have the cluster's security group.
    """
    adopted_id = request.options.get("file_system_id")
    if adopted_id:
        return FILE_SYSTEMS.describe(request.cloud, FileSystemId=adopted_id)
    if behind and not (request.present and request.manages(NAME)) and not _is_main(own, behind, present=request.present):
        return FILE_SYSTEMS.describe(request.cloud, FileSystemId=behind[0])
    return own


def _read_access_points(request: Request, file_system_id: str | None) -> list[Found]:
    """Return the cluster's access points on the adopted file system, or on all file systems if the run deletes the cluster."""
    cloud, present = request.cloud, request.present
    if present and not (file_system_id and request.options.get("file_system_id")):
        return []
    which = {"FileSystemId": file_system_id} if present else {}
    described = cloud.retrieve("efs", "describe_access_points", "AccessPoints", **which)
    own = any(with_keys(cloud, described, NAME))
    nodes = mounting_nodes(cloud, FILE_SYSTEM_TAG, str(file_system_id)) if present and own else []
    used = {node.tags.get(ACCESS_POINT_TAG) for node in nodes}

    def convert(_cloud: AwsClient, _key: str, item: Mapping[str, Any]) -> Found | None:
        if item["LifeCycleState"] in GONE:
            return None
        return Found(
            access_point(item["RootDirectory"]["Path"], "" if item["FileSystemId"] == file_system_id else item["FileSystemId"]),
            item["AccessPointId"],
            {"file_system": item["FileSystemId"], "tags": cloud.comparable_tags(item["Tags"])},
            {"used_by_nodes": item["AccessPointId"] in used},
        )

    return list(read_own(cloud, described, NAME, "AccessPointId", convert))


def _is_main(own: Mapping[str, Any] | None, behind: Sequence[str], *, present: bool) -> bool:
    """Return whether to use the cluster's own file system rather than one of the file systems in `behind`.

    The cluster's own file system takes precedence if the run deletes the cluster, or if its mount targets have the cluster's security
    group.
    """
    return own is not None and (not present or own["FileSystemId"] in behind)


def _behind(cloud: AwsClient, group: Found) -> list[str]:
    """Return the IDs of file systems with a mount target in the cluster's security group, as shown by the group's network interfaces."""
    interfaces = cloud.retrieve(
        "ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=[{"Name": "group-id", "Values": [group.id]}]
    )
    names = [MOUNT_TARGET_INTERFACE.match(interface.get("Description", "")) for interface in interfaces]
    return sorted({name.group(1) for name in names if name})


def _left_over(cloud: AwsClient, group: Found, file_system_id: str) -> list[Found]:
    """Return the mount targets that have the cluster's security group and belong to a file system that the cluster no longer uses."""
    targets = [_mount_target(cloud, target) for target in _targets(cloud, file_system_id)]
    return [
        replace(target, address=stale_mount_target(target.address.key, file_system_id))
        for target in targets
        if group.id in target.properties["security_groups"]
    ]


def _used(request: Request, description: Mapping[str, Any], network: Sequence[Found], group: Found | None) -> list[Found]:
    cloud, vpc = request.cloud, vpc_id(network)
    targets = _targets(cloud, description["FileSystemId"])
    attributes = _attributes(description, targets, vpc, request.options.get("zones") or _private_zones(network))
    described = _found(request, description)
    file_system = replace(described, attributes={**described.attributes, **attributes})
    own = {group.id} if group and not (group.adopted and file_system.adopted) else set()
    with ThreadPoolExecutor(8) as pool:
        here = pool.map(partial(_mount_target, cloud), [target for target in targets if target["VpcId"] == vpc])
        mount_targets = [replace(item, adopted=not own & item.properties["security_groups"]) for item in here]
    policies = [] if file_system.adopted else _read_policy(cloud, file_system.id)
    return [file_system, *policies, *mount_targets]


def _private_zones(network: Iterable[Found]) -> list[str]:
    subnets = [item for item in network if item.address.kind == "subnet" and item.address.key.startswith("private-")]
    return sorted(item.properties["zone"] for item in subnets)


def _attributes(
    description: Mapping[str, Any], targets: Sequence[Mapping[str, Any]], vpc: str | None, zones: Sequence[str]
) -> dict[str, Any]:
    """Return the attributes of the file system for hosts in a VPC. The docstring of `read` describes these attributes."""
    addresses = {target["AvailabilityZoneName"]: target["IpAddress"] for target in targets if target.get("IpAddress")}
    one_zone, same_vpc = description.get("AvailabilityZoneName"), all(target["VpcId"] == vpc for target in targets)
    return {
        "address": host_address(addresses, zones, same_vpc=same_vpc, one_zone=one_zone),
        "addresses": addresses,
        "vpc": targets[0]["VpcId"] if targets else None,
        "one_zone": one_zone,
    }


def _read_policy(cloud: AwsClient, file_system_id: str) -> list[Found]:
    """Return the policy of a file system, or an empty list if there is none.

    A policy whose `Id` is not `POLICY_ID` is treated as adopted.
    """
    answer = if_exists(cloud.efs.describe_file_system_policy, FileSystemId=file_system_id)
    if answer is None:
        return []
    document = json.loads(answer["Policy"])
    policy_id = document.get("Id")
    properties = {"file_system": file_system_id, "policy": comparable_policy(document)}
    return [Found(POLICY, f"{file_system_id}/policy", properties, {"policy_id": policy_id}, adopted=policy_id != POLICY_ID)]


def _found(request: Request, description: Mapping[str, Any]) -> Found:
    with readable(request.cloud, description["FileSystemId"]):
        return _file_system(request, description)


def _file_system(request: Request, description: Mapping[str, Any]) -> Found:
    cloud, tags = request.cloud, description.get("Tags", [])
    return Found(
        FILE_SYSTEM,
        description["FileSystemId"],
        {
            "encrypted": description["Encrypted"],
            "kms_key": comparable_key(request.options.get("kms_key_id"), description.get("KmsKeyId")),
            "performance_mode": description["PerformanceMode"],
            "throughput_mode": description["ThroughputMode"],
            "provisioned_throughput": description.get("ProvisionedThroughputInMibps"),
            "tags": cloud.comparable_tags(tags),
        },
        {"size": description.get("SizeInBytes", {}).get("Value", 0)},
        adopted=tag_dict(tags).get(CLUSTER_TAG) != cloud.cluster,
    )


def _targets(cloud: AwsClient, file_system_id: str) -> list[dict[str, Any]]:
    targets = cloud.retrieve("efs", "describe_mount_targets", "MountTargets", FileSystemId=file_system_id)
    return [target for target in targets if target["LifeCycleState"] not in GONE]


def _mount_target(cloud: AwsClient, target: Mapping[str, Any]) -> Found:
    # A mount target that was just created has no network interface yet
    describe_groups = partial(cloud.once_visible, cloud.efs.describe_mount_target_security_groups, "IncorrectMountTargetState")
    groups = describe_groups(MountTargetId=target["MountTargetId"])["SecurityGroups"]
    return Found(
        mount_target(target["AvailabilityZoneName"]),
        target["MountTargetId"],
        {"file_system": target["FileSystemId"], "subnet": target["SubnetId"], "security_groups": frozenset(groups)},
        {"vpc": target["VpcId"], "zone": target["AvailabilityZoneName"]},
    )


def _create_file_system(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    key = {"KmsKeyId": properties["kms_key"]} if "kms_key" in properties else {}
    try:
        created: Mapping[str, Any] = cloud.efs.create_file_system(
            CreationToken=f"{cloud.cluster}-{address.key}",
            Encrypted=properties["encrypted"],
            PerformanceMode=properties["performance_mode"],
            Tags=tag_list(properties["tags"]),
            **_throughput(properties),
            **key,
        )
    except ClientError as error:
        if error_code(error) != "FileSystemAlreadyExists":
            raise
        file_system_id = error.response["FileSystemId"]
        existing = FILE_SYSTEMS.describe(cloud, FileSystemId=file_system_id)
        if not existing or not FILE_SYSTEMS.is_own(cloud, existing):
            raise ClusterError(
                f"{file_system_id} was created earlier for a cluster named {cloud.cluster}, but it no longer has the cluster's tags. "
                f"Adopt it with {P}file_system_id, or delete it."
            ) from error
        created = existing  # This call has created the file system, but the first response was lost
    cloud.created.add(created["FileSystemId"])
    return Found(address, created["FileSystemId"], properties)


def _throughput(properties: Properties) -> dict[str, Any]:
    provisioned = {"ProvisionedThroughputInMibps": properties["provisioned_throughput"]} if "provisioned_throughput" in properties else {}
    return {"ThroughputMode": properties["throughput_mode"], **provisioned}


def _settle(lookup: Lookup) -> Callable[[AwsClient, Found], Found]:
    """Return a function that waits until a resource is available, and raises ClusterError if the resource has failed."""

    def settle(cloud: AwsClient, found: Found) -> Found:
        def is_available(description: Mapping[str, Any]) -> bool:
            state = description["LifeCycleState"]
            if state == "error":
                name = f"{lookup.name[0].upper()}{lookup.name[1:]}"
                raise ClusterError(f"{name} {found.id} is in the state 'error' and cannot recover. Delete it, and run again.")
            return bool(state == "available")

        return lookup.settle(cloud, found, is_available)

    return settle


def _update_file_system(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    if changed & {"throughput_mode", "provisioned_throughput"}:
        cloud.efs.update_file_system(FileSystemId=found.id, **_throughput(properties))
    if "tags" in changed:
        cloud.efs.tag_resource(ResourceId=found.id, Tags=tag_list(properties["tags"]))


def _delete_file_system(cloud: AwsClient, found: Found) -> None:
    others = cloud.retrieve("efs", "describe_mount_targets", "MountTargets", FileSystemId=found.id)
    if others:
        raise ClusterError(f"File system {found.id} still has a mount target in {others[0]['SubnetId']}. Delete that mount target first.")
    cloud.once_unused(cloud.efs.delete_file_system, FileSystemId=found.id)
    FILE_SYSTEM_LOOKUP.wait_until_gone(cloud, found)


def _create_policy(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    return _put_policy(cloud, Found(address, f"{properties['file_system']}/policy", properties), properties, frozenset())


def _put_policy(cloud: AwsClient, found: Found, properties: Properties, _changed: frozenset[str]) -> Found:
    documents = [policy_document(tls_required=required) for required in (False, True)]
    document = next(each for each in documents if comparable_policy(each) == properties["policy"])
    cloud.once_visible(
        cloud.efs.put_file_system_policy,
        "FileSystemNotFound",
        "IncorrectFileSystemLifeCycleState",
        FileSystemId=properties["file_system"],
        Policy=json.dumps(document),
    )
    return replace(found, properties=properties)


def _settle_policy(cloud: AwsClient, found: Found) -> Found:
    """Wait until AWS returns the policy, so that the next run finds it."""

    def shown() -> bool:
        return [item.properties for item in _read_policy(cloud, found.properties["file_system"])] == [found.properties]

    cloud.wait_until(f"the policy of {found.properties['file_system']} to become visible", shown)
    return found


def _delete_policy(cloud: AwsClient, found: Found) -> None:
    delete = cloud.efs.delete_file_system_policy
    cloud.once_unused(delete, "IncorrectFileSystemLifeCycleState", FileSystemId=found.properties["file_system"])


def _create_access_point(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    created = cloud.once_visible(
        cloud.efs.create_access_point,
        "IncorrectFileSystemLifeCycleState",
        FileSystemId=properties["file_system"],
        RootDirectory={"Path": address.key, "CreationInfo": OWNER},
        Tags=tag_list(properties["tags"]),
    )
    return Found(address, created["AccessPointId"], properties)


def _tag_access_point(cloud: AwsClient, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    cloud.efs.tag_resource(ResourceId=found.id, Tags=tag_list(properties["tags"]))


def _delete_access_point(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.efs.delete_access_point, AccessPointId=found.id)
    ACCESS_POINT_LOOKUP.wait_until_gone(cloud, found)


def _create_mount_target(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    try:
        created = cloud.once_visible(
            cloud.efs.create_mount_target,
            "IncorrectFileSystemLifeCycleState",
            "SecurityGroupNotFound",
            FileSystemId=properties["file_system"],
            SubnetId=properties["subnet"],
            SecurityGroups=sorted(properties["security_groups"]),
        )
    except ClientError as error:
        if error_code(error) != "UnsupportedAvailabilityZone":
            raise
        raise ClusterError(
            f"EFS is not available in {address.key}, the zone of {properties['subnet']}. Specify other zones ({P}zones) "
            f"or subnets in other zones ({P}private_subnet_ids), or set {P}efs: false."
        ) from error
    return Found(address, created["MountTargetId"], properties)


def _update_mount_target(cloud: AwsClient, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    cloud.efs.modify_mount_target_security_groups(MountTargetId=found.id, SecurityGroups=sorted(properties["security_groups"]))


def _delete_mount_target(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.efs.delete_mount_target, MountTargetId=found.id)
    MOUNT_TARGET_LOOKUP.wait_until_gone(cloud, found)


KINDS = (
    Kind(
        "file_system",
        _create_file_system,
        _delete_file_system,
        update=_update_file_system,
        settle=_settle(FILE_SYSTEM_LOOKUP),
        updatable=frozenset({"throughput_mode", "provisioned_throughput", "tags"}),
        deleted_after=("mount_target", "file_system_policy"),
        advice="This setting cannot be changed. Restore the former value, or copy the data to a new file system and adopt it.",
    ),
    Kind(
        "file_system_policy",
        _create_policy,
        _delete_policy,
        update=_put_policy,
        settle=_settle_policy,
        updatable=frozenset({"policy"}),
        deleted_after=("mount_target",),
    ),
    Kind(
        ACCESS_POINT_KIND,
        _create_access_point,
        _delete_access_point,
        update=_tag_access_point,
        settle=_settle(ACCESS_POINT_LOOKUP),
        updatable=frozenset({"tags"}),
        deleted_after=("auto_scaling_group",),
    ),
    Kind(
        "mount_target",
        _create_mount_target,
        _delete_mount_target,
        update=_update_mount_target,
        settle=_settle(MOUNT_TARGET_LOOKUP),
        updatable=frozenset({"security_groups"}),
        deleted_after=("auto_scaling_group",),
        deleted_before=("security_group", "subnet"),
    ),
)
