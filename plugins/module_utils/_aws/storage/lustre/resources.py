# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, creates, changes and deletes FSx for Lustre file systems and their links to S3."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Mapping

from ...._common.shared_storage.mounts import lustre_source
from ...client import CLUSTER_TAG, AwsClient, ClusterError, tag_dict, tag_list
from ...component import Request
from ...option import DEFAULT_WAIT_TIMEOUT
from ...own_resources import read_own, readable
from ...plan.planning import Kind
from ...plan.resources import Address, Found, Properties
from ..common import FileSystems, Lookup, comparable_key
from ..routing import vpc_id
from .definition import LUSTRE, data_repository
from .options import NAME

TIMEOUT = 3600  # maximum time to create, change or delete a file system or a link, in seconds. Usually, a few minutes are enough
FILE_SYSTEM = Lookup(
    "Lustre file system", "fsx", "describe_file_systems", "FileSystems", lambda id_: {"FileSystemIds": [id_]}, ("FileSystemNotFound",)
)
LINK = Lookup(
    "link",
    "fsx",
    "describe_data_repository_associations",
    "Associations",
    lambda id_: {"AssociationIds": [id_]},
    ("DataRepositoryAssociationNotFound",),
)
VERSION = "2.15"  # the default for the older deployment types is 2.10, which does not support data repository associations


def _is_usable(description: Mapping[str, Any]) -> bool:
    return description["FileSystemType"] == "LUSTRE" and description["Lifecycle"] != "DELETING"


FILE_SYSTEMS = FileSystems("fsx", NAME, LUSTRE, "Lustre file system", "lustre_file_system_id", _is_usable)


def read(request: Request, network: Iterable[Found]) -> list[Found]:
    """Return the cluster's own or adopted file system, and the cluster's own links to S3.

    The attributes of the file system contain its `source` for mount(8), its `vpc`, and its `address` in that VPC.
    """
    cloud = request.cloud
    own, adopted_id = FILE_SYSTEMS.owned(cloud), request.options.get("lustre_file_system_id")
    main = FILE_SYSTEMS.describe(cloud, FileSystemIds=[adopted_id]) if adopted_id else own
    vpc = vpc_id(list(network))
    found = []
    if main:
        found.append(_found(request, main, vpc))
    if own and (main is None or own["FileSystemId"] != main["FileSystemId"]):
        found.append(replace(_found(request, own, vpc), address=FILE_SYSTEMS.former))
    return [*found, *(_links(cloud, own["FileSystemId"]) if own else [])]


def _found(request: Request, description: Mapping[str, Any], vpc: str | None) -> Found:
    with readable(request.cloud, description["FileSystemId"]):
        return _file_system(request, description, vpc)


def _file_system(request: Request, description: Mapping[str, Any], vpc: str | None) -> Found:
    """Convert AWS's description of a file system to a resource that the plan can compare.

    Clients in another VPC use the address of the first network interface to mount the file system.
    """
    cloud, tags, target = request.cloud, description.get("Tags", []), _target(description)
    lustre = {**description["LustreConfiguration"], **target.get("LustreConfiguration", {})}
    ids = description.get("NetworkInterfaceIds", [])
    # The description of a failed file system may contain deleted interfaces, so this call uses a filter, which accepts their IDs
    filters = [{"Name": "network-interface-id", "Values": ids}]
    described = cloud.retrieve("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=filters) if ids else []
    interfaces = {item["NetworkInterfaceId"]: item for item in described}
    address = next((interfaces[id_]["PrivateIpAddress"] for id_ in ids if id_ in interfaces), None)
    return Found(
        LUSTRE,
        description["FileSystemId"],
        {
            "capacity": target.get("StorageCapacity", description["StorageCapacity"]),
            "deployment": lustre["DeploymentType"],
            "throughput": lustre.get("PerUnitStorageThroughput"),
            "kms_key": comparable_key(request.options.get("kms_key_id"), description.get("KmsKeyId")),
            "compression": lustre.get("DataCompressionType", "NONE"),
            "subnet": description["SubnetIds"][0],
            "security_groups": frozenset(group["GroupId"] for item in interfaces.values() for group in item["Groups"]),
            "tags": cloud.comparable_tags(tags),
        },
        {
            **_attributes(description, address if description["VpcId"] != vpc else None),
            "address": address,
            "state": description["Lifecycle"],
        },
        adopted=tag_dict(tags).get(CLUSTER_TAG) != cloud.cluster,
    )


def _attributes(description: Mapping[str, Any], server: str | None = None) -> dict[str, Any]:
    mount_name = description["LustreConfiguration"]["MountName"]
    return {
        "source": lustre_source(server or description["DNSName"], mount_name),
        "vpc": description["VpcId"],
        "arn": description["ResourceARN"],
        "interfaces": description.get("NetworkInterfaceIds", []),
    }


def _links(cloud: AwsClient, file_system_id: str) -> list[Found]:
    described = cloud.retrieve(
        "fsx",
        "describe_data_repository_associations",
        "Associations",
        Filters=[{"Name": "file-system-id", "Values": [file_system_id]}],
    )
    return list(read_own(cloud, described, FILE_SYSTEMS.component, "AssociationId", _link))


def _link(cloud: AwsClient, _key: str, item: Mapping[str, Any]) -> Found | None:
    if item["Lifecycle"] == "DELETING":
        return None
    return Found(
        data_repository(item["FileSystemPath"]),
        item["AssociationId"],
        {
            "file_system": item["FileSystemId"],
            "s3": item["DataRepositoryPath"].rstrip("/"),
            "imports": _events(item, "AutoImportPolicy"),
            "exports": _events(item, "AutoExportPolicy"),
            "tags": cloud.comparable_tags(item.get("Tags", [])),
        },
        {"arn": item["ResourceARN"]},
    )


def _events(association: Mapping[str, Any], policy: str) -> frozenset[str]:
    return frozenset(association.get("S3", {}).get(policy, {}).get("Events", []))


def _token(cloud: AwsClient, request: Mapping[str, Any]) -> str:
    """Return the client token for a request. Within a run, the same request has the same token, so a retry does not create a duplicate.

    Another run finds existing resources by their tags. Each run uses new tokens, because FSx could return a deleted resource for an old
    token.
    """
    return hashlib.sha256(json.dumps([cloud.cluster, cloud.run_id, request], sort_keys=True).encode()).hexdigest()[:40]


def _create_file_system(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    request: dict[str, Any] = {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": VERSION,
        "StorageCapacity": properties["capacity"],
        "StorageType": "SSD",
        "SubnetIds": [properties["subnet"]],
        "SecurityGroupIds": sorted(properties["security_groups"]),
        "LustreConfiguration": {"DeploymentType": properties["deployment"], **_configuration(properties)},
        "Tags": tag_list(properties["tags"]),
    }
    if "kms_key" in properties:
        request["KmsKeyId"] = properties["kms_key"]
    created = cloud.once_visible(
        cloud.client("fsx").create_file_system, "InvalidNetworkSettings", ClientRequestToken=_token(cloud, request), **request
    )["FileSystem"]
    cloud.created.add(created["FileSystemId"])
    return Found(address, created["FileSystemId"], properties, _attributes(created))


def _configuration(properties: Properties) -> dict[str, Any]:
    throughput = {"PerUnitStorageThroughput": properties["throughput"]} if "throughput" in properties else {}
    compression = {"DataCompressionType": properties["compression"]} if "compression" in properties else {}
    return {**compression, **throughput}


def _settle_file_system(cloud: AwsClient, found: Found) -> Found:
    def is_available(description: Mapping[str, Any]) -> bool:
        return _is_available(description) and not _target(description)

    return FILE_SYSTEM.settle(cloud, found, is_available, timeout=_timeout(cloud))


def _timeout(cloud: AwsClient) -> float:
    """Return how long to wait for a file system or a link, in seconds. FSx works on the links of a file system one after another.

    If the user sets `wait_timeout` to less than the default, return that value.
    """
    return TIMEOUT if cloud.wait_timeout >= DEFAULT_WAIT_TIMEOUT else cloud.wait_timeout


def _is_available(description: Mapping[str, Any]) -> bool:
    """Return whether a file system or a link is available. Raises ClusterError if the file system or link has failed."""
    if description["Lifecycle"] in ("FAILED", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE"):
        reason = description.get("FailureDetails", {}).get("Message", "AWS returned no reason")
        raise ClusterError(f"{description.get('AssociationId') or description['FileSystemId']} is {description['Lifecycle']}: {reason}")
    return bool(description["Lifecycle"] == "AVAILABLE")


def _target(description: Mapping[str, Any]) -> dict[str, Any]:
    target: dict[str, Any] = {}
    for action in reversed(description.get("AdministrativeActions", [])):
        if action["AdministrativeActionType"] == "FILE_SYSTEM_UPDATE" and action["Status"] in ("PENDING", "IN_PROGRESS"):
            values = action.get("TargetFileSystemValues", {})
            lustre = {**target.get("LustreConfiguration", {}), **values.get("LustreConfiguration", {})}
            target = {**target, **values, "LustreConfiguration": lustre}
    return target


def _update_file_system(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    request: dict[str, Any] = {"StorageCapacity": properties["capacity"]} if "capacity" in changed else {}
    if changed & {"throughput", "compression"}:
        request["LustreConfiguration"] = _configuration({name: properties[name] for name in changed & {"throughput", "compression"}})
    if request:
        _settle_file_system(cloud, found)  # FSx accepts only one update at a time
        cloud.client("fsx").update_file_system(FileSystemId=found.id, **request)
    if "security_groups" in changed:
        for interface in found.attributes["interfaces"]:
            cloud.ec2.modify_network_interface_attribute(NetworkInterfaceId=interface, Groups=sorted(properties["security_groups"]))
    if "tags" in changed:
        _update_tags(cloud, found, properties)


def _update_tags(cloud: AwsClient, found: Found, properties: Properties) -> None:
    cloud.client("fsx").tag_resource(ResourceARN=found.attributes["arn"], Tags=tag_list(properties["tags"]))


def _delete_file_system(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.client("fsx").delete_file_system, FileSystemId=found.id)
    FILE_SYSTEM.wait_until_gone(cloud, found, timeout=_timeout(cloud))


def _policies(properties: Properties) -> dict[str, Any]:
    """Return the events that a link imports and exports. An empty list of events disables the import or the export."""
    return {"AutoImportPolicy": {"Events": sorted(properties["imports"])}, "AutoExportPolicy": {"Events": sorted(properties["exports"])}}


def _created_policies(properties: Properties) -> dict[str, Any]:
    """Return the events that a new link imports and exports. Omit empty lists, which the API does not accept for new links."""
    policies = {name: policy for name, policy in _policies(properties).items() if policy["Events"]}
    return {"S3": policies} if policies else {}


def _create_link(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    request = {
        "FileSystemId": properties["file_system"],
        "FileSystemPath": address.key,
        "DataRepositoryPath": properties["s3"],
        # Also import existing objects
        "BatchImportMetaDataOnCreate": bool(properties["imports"]),
        **_created_policies(properties),
        "Tags": tag_list(properties["tags"]),
    }
    create, token = cloud.client("fsx").create_data_repository_association, _token(cloud, request)
    created = cloud.once_visible(create, ClientRequestToken=token, **request)["Association"]
    return Found(address, created["AssociationId"], properties, {"arn": created["ResourceARN"]})


def _update_link(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    if changed & {"imports", "exports"}:
        cloud.client("fsx").update_data_repository_association(AssociationId=found.id, S3=_policies(properties))
    if "tags" in changed:
        _update_tags(cloud, found, properties)


def _settle_link(cloud: AwsClient, found: Found) -> Found:
    return LINK.settle(cloud, found, _is_available, timeout=_timeout(cloud))


def _delete_link(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.client("fsx").delete_data_repository_association, AssociationId=found.id, DeleteDataInFileSystem=False)
    LINK.wait_until_gone(cloud, found, timeout=_timeout(cloud))


KINDS = (
    Kind(
        "lustre_file_system",
        _create_file_system,
        _delete_file_system,
        update=_update_file_system,
        settle=_settle_file_system,
        updatable=frozenset({"capacity", "throughput", "compression", "security_groups", "tags"}),
        deleted_after=("data_repository_association", "auto_scaling_group"),
        deleted_before=("security_group", "subnet"),
        advice="This setting cannot be changed. Restore the former value, or copy the data to a new file system and adopt it.",
    ),
    Kind(
        "data_repository_association",
        _create_link,
        _delete_link,
        update=_update_link,
        settle=_settle_link,
        updatable=frozenset({"imports", "exports", "tags"}),
        advice="Remove this path from {P}lustre_data_repositories in one run, and add it with the new prefix in the next run.",
    ),
)
