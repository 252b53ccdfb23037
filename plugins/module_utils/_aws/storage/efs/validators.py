# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the EFS file system."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...component import Request
from ...message_parts import P
from ...network.definition import STORAGE_GROUP
from ...network.zones import zones
from ...plan.resources import Found
from ...validator import Level, Validator
from ..common import find
from ..routing import is_routed, vpc_id
from .definition import POLICY
from .options import NAME as FILE_SYSTEM
from .resources import FILE_SYSTEMS

# Limits of an access point: https://docs.aws.amazon.com/efs/latest/ug/API_RootDirectory.html
DIRECTORY = re.compile(r"(?=.{1,100}$)(/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,4}")


class FileSystemOptions(Validator):
    name = "file_system_options"
    components = frozenset({FILE_SYSTEM})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        yield from _check_directory(options)
        if options["file_system_id"] and not options["efs"]:
            yield f"{P}file_system_id: {options['file_system_id']} is not used with {P}efs: false. Remove one of these options."
        yield from _check_throughput(options)
        if options["kms_key_id"] and not options["encrypted"] and options["efs"]:
            yield f"{P}kms_key_id: {options['kms_key_id']} cannot be combined with {P}encrypted: false. Remove one of these options."


def _check_directory(options: Mapping[str, Any]) -> Iterator[str]:
    directory = options["file_system_directory"]
    if not directory:
        return
    if not DIRECTORY.fullmatch(directory):
        yield f"{P}file_system_directory: '{directory}' is not a valid directory for an access point. Specify a path such as /teams/bert."
    if not options["file_system_id"]:
        yield f"{P}file_system_directory: '{directory}' requires an adopted file system. Set {P}file_system_id, or remove this option."
    if options["encrypt_in_transit"] is False:
        yield (
            f"{P}encrypt_in_transit: false cannot be combined with {P}file_system_directory, which requires TLS. Remove one of these "
            "options."
        )


def _check_throughput(options: Mapping[str, Any]) -> Iterator[str]:
    mode, throughput = options["throughput_mode"], options["provisioned_throughput"]
    if mode == "provisioned" and (throughput is None or throughput < 1):
        yield f"{P}provisioned_throughput: missing or too small. Specify at least 1 MiB/s with {P}throughput_mode: provisioned."
    if mode != "provisioned" and throughput is not None:
        yield (
            f"{P}provisioned_throughput: {throughput:g} MiB/s cannot be combined with {P}throughput_mode: {mode}. "
            f"Remove this option, or set {P}throughput_mode: provisioned."
        )
    if mode == "elastic" and options["performance_mode"] == "maxIO":
        yield f"{P}throughput_mode: elastic cannot be combined with {P}performance_mode: maxIO. Remove one of these options."


class AdoptedFileSystem(Validator):
    """Checks that the EFS file system exists and that the nodes can reach it from their network."""

    name = "file_system"
    components = frozenset({FILE_SYSTEM})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not request.options["efs"]:
            return
        adopted_id, file_system = request.options["file_system_id"], FILE_SYSTEMS.find(found)
        if file_system:
            yield from _check_reach(request, found, file_system)
        elif adopted_id:
            yield (
                f"{P}file_system_id: {adopted_id} does not exist in {request.cloud.region}. "
                "Specify the ID of an existing file system, or remove the option to create a new one."
            )


def _check_reach(request: Request, found: Sequence[Found], file_system: Found) -> Iterator[str]:
    attributes = file_system.attributes
    if attributes["vpc"] in (None, vpc_id(found)):
        yield from _check_zones(request, found, file_system)
    elif not is_routed(request.cloud, found, attributes["address"]):
        yield (
            f"{P}file_system_id: {file_system.id} has its mount targets in {attributes['vpc']}, and EFS allows them in only one VPC. "
            f"Peer that VPC with the cluster's VPC and add routes to {attributes['address']}, delete the mount targets, "
            "or use another file system."
        )


def _check_zones(request: Request, found: Sequence[Found], file_system: Found) -> Iterator[str]:
    """Check that each zone of the cluster has a mount target of the file system, or that a run can add one."""
    name, one_zone, zone_names = f"{P}file_system_id: {file_system.id}", file_system.attributes["one_zone"], zones(request, found)
    addresses, group = file_system.attributes["addresses"], find(found, STORAGE_GROUP)
    if one_zone and not addresses and zone_names != [one_zone]:
        yield f"{name} is a One Zone file system in {one_zone} without a mount target. Set {P}zones: [{one_zone}], or add a mount target."
    lacking = [zone for zone in zone_names if zone not in addresses and one_zone in (None, zone)]
    if group and group.adopted and file_system.adopted and lacking:
        yield (
            f"{name} has no mount target in {', '.join(lacking)}. With an adopted security group, a run does not add mount targets, "
            f"because later runs could not recognize them. Create the mount targets yourself, or remove {P}security_group_ids.storage."
        )


class FileSystemPolicy(Validator):
    """Warns if the cluster's file system has a policy that the collection did not create.

    A run does not replace such a policy.
    """

    name = "file_system_policy"
    components = frozenset({FILE_SYSTEM})
    level = Level.WARNING

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        policy = find(found, POLICY)
        if policy and policy.adopted and not request.options["file_system_id"]:
            file_system = policy.properties["file_system"]
            yield (
                f"file_system: {file_system} keeps its policy (Id {policy.attributes['policy_id']!r}), which the collection did not "
                "create. To replace this policy with the cluster's own, delete it with "
                f"aws efs delete-file-system-policy --file-system-id {file_system}, and provision again."
            )


VALIDATORS = (FileSystemOptions(), AdoptedFileSystem(), FileSystemPolicy())
