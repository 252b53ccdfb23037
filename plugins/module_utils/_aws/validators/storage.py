# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Whether the shared storage is described without contradiction, and whether the nodes will reach it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AwsClient
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import adopted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.definition import LUSTRE as LUSTRE_PORTS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.definition import NFS, NODES_GROUP, STORAGE_GROUP, VPC
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.security_groups import rules as security_group_rules
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.tagged import NAME as NETWORK
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.zones import zones
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.definition import NAME as NODES
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import UNKNOWN, Found, resolve
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage import registry as storage
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs import component as file_systems
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs.definition import POLICY
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs.resources import NAME as FILE_SYSTEM
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre import component as lustres
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.resources import NAME as LUSTRE
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.registry import STORAGE_NAMES
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.tags import TAGS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validator import Level, Validator
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators import rules
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage.mounts import check_mount_point

KMS_KEY = re.compile(r"(arn:[\w-]+:kms:[\w-]+:\d{12}:key/)?(mrk-)?[0-9a-fA-F-]{32,36}")
S3_PREFIX = re.compile(rf"s3://{rules.BUCKET_NAME.pattern}(/[^\r\n]*)?")
DIRECTORY = re.compile(r"/|(/[^/\r\n]+)+")
#: Of an access point: https://docs.aws.amazon.com/efs/latest/ug/API_RootDirectory.html
EFS_DIRECTORY = re.compile(r"(?=.{1,100}$)(/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,4}")
MOST_LINKS = 8  # of one Lustre file system


class SharedStorage(Validator):
    """Jobs are on shared storage, so there is some, and it is where they look for it."""

    name = "shared_storage"
    components = frozenset({NODES})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        option, mounts = "mount_point", storage.mounts(request, found)
        wanted, shared = request.options[option], [mount for mount in mounts if mount.holds_jobs]
        for mount in mounts:
            try:
                if mount.option != option:
                    check_mount_point(mount.mount_point)
            except ValueError as error:
                yield f"{mount.option}: {error}."
        if request.manages(FILE_SYSTEM) and not shared:
            yield "efs: false leaves the cluster without shared storage, which jobs need. Set lustre: true, or leave efs as it is."
        if shared and wanted not in [mount.mount_point for mount in shared]:
            other = shared[0]
            yield (
                f"{option}: {wanted} is where jobs are, and nothing is mounted there. Make it {other.mount_point}, as {other.option} is."
            )
        for first, second in combinations(mounts, 2):
            places = [f"{mount.mount_point}/" for mount in (first, second)]
            if places[0].startswith(places[1]) or places[1].startswith(places[0]):
                yield (
                    f"{second.option}: {second.mount_point} and {first.option} {first.mount_point} must not lie in each other. "
                    "Choose another directory."
                )


class FileSystemOptions(Validator):
    name = "file_system_options"
    components = frozenset({FILE_SYSTEM})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        directory = options["file_system_directory"]
        if directory and not EFS_DIRECTORY.fullmatch(directory):
            yield f"file_system_directory: '{directory}' is not a directory that an access point can have. Give one such as /teams/bert."
        if directory and not options["file_system_id"]:
            yield "file_system_directory: a file system of the cluster's own is used as a whole. Give file_system_id, or leave this out."
        if directory and options["encrypt_in_transit"] is False:
            yield "encrypt_in_transit: false is not possible with file_system_directory, for which EFS needs TLS. Leave one of them out."
        mode, throughput = options["throughput_mode"], options["provisioned_throughput"]
        if options["file_system_id"] and not options["efs"]:
            yield f"file_system_id: {options['file_system_id']} is not used with efs: false. Leave one of them out."
        if mode == "provisioned" and (throughput is None or throughput < 1):
            yield "provisioned_throughput: give at least 1 MiB/s with throughput_mode: provisioned."
        if mode != "provisioned" and throughput is not None:
            yield f"provisioned_throughput: not possible with throughput_mode: {mode}. Leave it out, or make the mode provisioned."
        if mode == "elastic" and options["performance_mode"] == "maxIO":
            yield "throughput_mode: elastic is not possible with performance_mode: maxIO. Leave one of them out."
        if options["kms_key_id"] and not options["encrypted"] and options["efs"]:
            yield "kms_key_id: not possible with encrypted: false. Leave one of them out."


class StorageKey(Validator):
    name = "storage_key"
    components = frozenset({FILE_SYSTEM, LUSTRE})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        key = request.options["kms_key_id"]
        if key and not KMS_KEY.fullmatch(key):
            yield f"kms_key_id: '{key}' is not the id or ARN of a KMS key. An alias is not possible: it may come to mean another key."


class LustreOptions(Validator):
    name = "lustre_options"
    components = frozenset({LUSTRE})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options, own = request.options, lustres.find(found)
        if options["lustre_file_system_id"] and options["lustre_data_repositories"]:
            yield "lustre_data_repositories: an adopted file system is not changed. Link it yourself, and leave this out."
        if not options["lustre"] or options["lustre_file_system_id"]:
            return
        capacity = options["lustre_capacity"]
        if capacity <= 0 or (capacity != 1200 and capacity % 2400):
            yield f"lustre_capacity: {capacity} GiB is not possible. Give 1200 or a multiple of 2400."
        elif own and capacity < own.properties["capacity"]:
            size = own.properties["capacity"]
            yield f"lustre_capacity: {own.id} has {size} GiB and cannot shrink to {capacity}. Give {size}, or adopt a smaller one."
        yield from _links(options["lustre_data_repositories"])


def _links(repositories: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    option = "lustre_data_repositories"
    if len(repositories) > MOST_LINKS:
        yield f"{option}: {len(repositories)} are too many, {MOST_LINKS} are possible."
    for item in repositories:
        if not S3_PREFIX.fullmatch(item["s3"]):
            yield f"{option}: '{item['s3']}' is not a bucket or prefix. Give one such as s3://bucket/prefix."
        if not DIRECTORY.fullmatch(item["path"]):
            yield f"{option}: '{item['path']}' is not a directory of the file system. Give one such as /dataset."
    paths = sorted(item["path"].rstrip("/") + "/" for item in repositories)
    for first, second in zip(paths, paths[1:]):
        if second.startswith(first):
            yield f"{option}: {second} lies in {first}, and directories that are linked must not. Choose another one."


class AdoptedFileSystem(Validator):
    """Whether an EFS file system that others may use, too, can be used from this network."""

    name = "file_system"
    components = frozenset({FILE_SYSTEM})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, wanted_id, file_system = request.cloud, request.options["file_system_id"], file_systems.find(found)
        if not request.options["efs"]:
            return
        if wanted_id and file_system is None:
            yield f"file_system_id: {wanted_id} does not exist in {cloud.region}. Give the id of a file system there, or none to get one."
        if file_system is None:
            return
        name, attributes = f"file_system_id: {file_system.id}", file_system.attributes
        if attributes["vpc"] not in (None, _vpc(found)):
            if not _is_routed(cloud, found, attributes["address"]):
                yield (
                    f"{name} has its mount targets in {attributes['vpc']}, and a file system can have them in one VPC only. Peer that VPC "
                    f"with the cluster's and route to {attributes['address']}, delete those mount targets, or give another file system."
                )
            return
        one_zone, places = attributes["one_zone"], zones(request, found)
        if one_zone and not attributes["addresses"] and places != [one_zone]:
            yield f"{name} is only in {one_zone}, without a mount target. Make zones [{one_zone}], or add one."
        group = next((item for item in found if item.address == STORAGE_GROUP), None)
        lacking = [zone for zone in places if zone not in attributes["addresses"] and one_zone in (None, zone)]
        if group and group.adopted and file_system.adopted and lacking:
            yield (
                f"{name} has no mount target in {', '.join(lacking)}. With an adopted security group for storage the cluster adds none, "
                "because it could not tell its own. Add them, or leave that security group out."
            )


class FileSystemPolicy(Validator):
    """Somebody who has put a policy on the cluster's file system keeps it."""

    name = "file_system_policy"
    components = frozenset({FILE_SYSTEM})
    level = Level.WARNING

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        for item in found:
            if item.address == POLICY and item.adopted and not request.options["file_system_id"]:
                file_system = item.properties["file_system"]
                yield (
                    f"file_system: {file_system} has a policy that is not the cluster's (its Id is {item.attributes['policy_id']!r}), "
                    "and keeps it. For the cluster's own, delete it with "
                    f"aws efs delete-file-system-policy --file-system-id {file_system}, and provision again."
                )


class AdoptedLustre(Validator):
    """Whether a Lustre file system can be used, and from this network."""

    name = "lustre"
    components = frozenset({LUSTRE})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, wanted_id, file_system = request.cloud, request.options["lustre_file_system_id"], lustres.find(found)
        if wanted_id and file_system is None:
            yield f"lustre_file_system_id: {wanted_id} is no file system of FSx for Lustre in {cloud.region}. Give the id of one, or none."
        if file_system is None or not lustres.is_mounted(request, found):
            return
        if file_system.attributes["state"] == "FAILED":
            yield f"lustre: {file_system.id} has failed, as AWS says. Delete it, or adopt another one with lustre_file_system_id."
        attributes = file_system.attributes
        if attributes["vpc"] != _vpc(found) and not _is_routed(cloud, found, attributes["address"]):
            yield (
                f"lustre_file_system_id: {file_system.id} is in {attributes['vpc']}. Peer that VPC with the cluster's and route to "
                f"{attributes['address']}, or give another file system."
            )


class StoragePorts(Validator):
    """Whether what is adopted lets the nodes in. What is not known yet, such as a security group to be made, is not asked for."""

    name = "storage_ports"
    components = frozenset({FILE_SYSTEM, LUSTRE})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        lustre, places = lustres.find(found), zones(request, found)
        targets = [item for item in found if item.address.kind == "mount_target" and item.adopted and item.attributes["zone"] in places]
        asked = [(item, "file_system_id", NFS) for item in targets if file_systems.is_mounted(request, found)]
        if lustre and lustre.adopted and lustre.attributes["vpc"] == _vpc(found):
            asked.append((lustre, "lustre_file_system_id", LUSTRE_PORTS[0]))
        nodes = next((item.id for item in found if item.address == NODES_GROUP), None)
        subnets = [item for item in found if item.address.kind == "subnet" and item.address.key.startswith("private-")]
        ranges = [item.properties["cidr"] for item in subnets if item.properties["cidr"]]
        for item, option, ports in asked:
            groups = sorted(item.properties["security_groups"])
            described = adopted.groups(request.cloud, groups)
            incoming = [rule for group in described for rule in security_group_rules(group["IpPermissions"])]
            if ranges and not adopted.lets_in(incoming, ports, {nodes} if nodes else (), ranges):
                yield (
                    f"{option}: {item.id} does not let the nodes in on TCP port {ports[1]}. Allow it in {' or '.join(groups)} from "
                    f"{nodes or 'the nodes'} or from {', '.join(ranges)}."
                )


class StorageKept(Validator):
    """Nodes have mounted what was described when they were launched."""

    name = "storage_kept"
    components = STORAGE_NAMES | {NETWORK, NODES}

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        running = any(item.attributes["instances"] for item in found if item.address.kind == "nodes")
        tags: Mapping[str, str] = next((item.properties["tags"] for item in found if item.address.kind == "auto_scaling_group"), {})
        if not running:
            return
        known = {item.address: item for item in found}
        now = resolve({tag: value for mount in storage.mounts(request, found) for tag, value in mount.tags.items()}, known)
        for tag in TAGS:
            before, after = tags.get(tag.key), now.get(tag.key)
            if tag.kept and before and tag.variable in request.options and after not in (before, UNKNOWN):
                yield (
                    f"{tag.variable}: nodes run that mount {before}, so it cannot be changed to {after or 'none'}. "
                    "Delete the cluster, which keeps the data, and create it again."
                )


def _is_routed(cloud: AwsClient, found: Sequence[Found], address: str | None) -> bool:
    """Whether all private subnets have a route to an address. One that is not known yet cannot be mounted."""
    vpc = _vpc(found)
    subnets = [item.id for item in found if item.address.kind == "subnet" and item.address.key.startswith("private-")]
    tables = [adopted.route_table(cloud, vpc, subnet) for subnet in subnets] if vpc else []
    return bool(tables and address) and all(adopted.leads_to(table, str(address)) for table in tables)


def _vpc(found: Sequence[Found]) -> str | None:
    return next((item.id for item in found if item.address == VPC), None)


VALIDATORS = (
    SharedStorage(),
    FileSystemOptions(),
    StorageKey(),
    LustreOptions(),
    AdoptedFileSystem(),
    FileSystemPolicy(),
    AdoptedLustre(),
    StoragePorts(),
    StorageKept(),
)
