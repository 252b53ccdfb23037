# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the Lustre file system."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ...._common.shared_storage.mounts import BUCKET_NAME
from ...component import Request
from ...message_parts import P
from ...network import adopted
from ...network.definition import NODES_GROUP, SELF, STORAGE_GROUP
from ...plan.resources import Found
from ...validator import Validator
from ..routing import is_routed, vpc_id
from .component import is_mounted
from .definition import PORTS
from .options import NAME as LUSTRE
from .resources import FILE_SYSTEMS

S3_PREFIX = re.compile(rf"s3://{BUCKET_NAME}(/[^\r\n]*)?")
DIRECTORY = re.compile(r"/|(/[^/\r\n]+)+")
MOST_LINKS = 8  # AWS's limit for one file system


class LustreOptions(Validator):
    name = "lustre_options"
    components = frozenset({LUSTRE})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        if options["lustre_file_system_id"] and options["lustre_data_repositories"]:
            yield (
                f"{P}lustre_data_repositories: an adopted file system is never changed. Create the links yourself, and remove this option."
            )
        if not options["lustre"] or options["lustre_file_system_id"]:
            return
        yield from _check_capacity(options["lustre_capacity"], FILE_SYSTEMS.find(found))
        yield from _check_links(options["lustre_data_repositories"])


def _check_capacity(capacity: int, own: Found | None) -> Iterator[str]:
    if capacity <= 0 or (capacity != 1200 and capacity % 2400):
        yield f"{P}lustre_capacity: {capacity} GiB is not a valid size. Specify 1200 or a multiple of 2400."
    elif own and capacity < own.properties["capacity"]:
        size = own.properties["capacity"]
        yield (
            f"{P}lustre_capacity: {own.id} has {size} GiB and cannot shrink to {capacity}. Specify {size}, or adopt a smaller file system."
        )


def _check_links(repositories: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    option = "lustre_data_repositories"
    if len(repositories) > MOST_LINKS:
        yield f"{P}{option}: {len(repositories)} links exceed the limit. Specify at most {MOST_LINKS}."
    for item in repositories:
        if not S3_PREFIX.fullmatch(item["s3"]):
            yield f"{P}{option}: '{item['s3']}' is not a bucket or prefix. Specify a general purpose bucket, as in s3://bucket/prefix."
        if not DIRECTORY.fullmatch(item["path"]):
            yield f"{P}{option}: '{item['path']}' is not a valid directory. Specify a directory such as /dataset."
    paths = sorted(item["path"].rstrip("/") + "/" for item in repositories)
    for first, second in zip(paths, paths[1:]):
        if second.startswith(first):
            yield f"{P}{option}: {second} is in {first}, but linked directories must not contain each other. Choose another directory."


class AdoptedLustre(Validator):
    """Checks that the Lustre file system exists and has not failed, and that the nodes can reach it from their network."""

    name = "lustre"
    components = frozenset({LUSTRE})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, adopted_id, file_system = request.cloud, request.options["lustre_file_system_id"], FILE_SYSTEMS.find(found)
        if adopted_id and file_system is None:
            yield (
                f"{P}lustre_file_system_id: {adopted_id} is not an FSx for Lustre file system in {cloud.region}. "
                "Specify the ID of an existing file system, or remove the option."
            )
        if file_system is None or not is_mounted(request, found):
            return
        if file_system.attributes["state"] == "FAILED":
            yield (
                f"{P}lustre: {file_system.id} is in the state FAILED. Delete it, or adopt another file system with "
                f"{P}lustre_file_system_id."
            )
        vpc, address = file_system.attributes["vpc"], file_system.attributes["address"]
        if vpc != vpc_id(found) and not is_routed(cloud, found, address):
            yield (
                f"{P}lustre_file_system_id: {file_system.id} is in {vpc}, which the nodes cannot reach. "
                f"Peer that VPC with the cluster's VPC and add routes to {address}, or specify another file system."
            )


class LustreGroups(Validator):
    """Checks that adopted security groups allow the traffic between a new file system of the cluster and its clients, in both directions.

    Existing file systems are not checked, because AWS formerly documented fewer ports for their security groups.
    """

    name = "lustre_groups"
    components = frozenset({LUSTRE})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        if not options["vpc_id"] or not options["lustre"] or options["lustre_file_system_id"] or FILE_SYSTEMS.find(found):
            return
        known = {item.address: item for item in found}
        nodes, storage = known.get(NODES_GROUP), known.get(STORAGE_GROUP)
        of_nodes = {*([nodes.id] if nodes else []), *options.get("additional_security_group_ids", [])}
        of_servers = {storage.id} if storage else set()
        node_ranges, server_ranges = adopted.node_cidrs(request, found), adopted.cidrs(request, found, ("private",))
        if storage and storage.adopted:
            yield from _check_ports(storage, "storage", of_nodes, "the nodes", node_ranges)
            yield from _check_ports(storage, "storage", of_servers, "itself", server_ranges)
        if nodes and nodes.adopted:
            yield from _check_ports(nodes, "nodes", of_servers, "the file system", server_ranges)


def _check_ports(group: Found, name: str, peers: AbstractSet[str], who: str, ranges: Sequence[str]) -> Iterator[str]:
    """Yield a message for each direction in which the security group blocks Lustre traffic.

    Lustre servers and clients open connections to each other.
    """
    allowed = {SELF if peer == group.id else peer for peer in peers}
    for direction, traffic in (("ingress", "inbound traffic from"), ("egress", "outbound traffic to")):
        if not all(adopted.lets_in(group.properties[direction], ports, allowed, ranges) for ports in PORTS):
            yield (
                f"{P}security_group_ids: {group.id} ({name}) does not allow {traffic} {who} on TCP ports 988 and 1018-1023, "
                "which Lustre requires. Add rules for these ports."
            )


VALIDATORS = (LustreOptions(), AdoptedLustre(), LustreGroups())
