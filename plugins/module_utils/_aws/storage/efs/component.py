# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for shared storage on EFS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...._common.shared_storage import mounts
from ...component import Mount, Request, Server
from ...network.definition import NFS
from ...network.zones import zones
from ...plan.planning import Action, Change
from ...plan.resources import Computed, Found, Ref, Wanted
from ...regions import partition_of
from ..mounting_nodes import mounting_nodes, nodes_of_others, refuse_in_use
from ..routing import vpc_id
from . import definition, resources
from .charges import charges
from .iam_actions import IAM_ACTIONS
from .options import NAME
from .tags import ACCESS_POINT_TAG, FILE_SYSTEM_ADDRESS_TAG, FILE_SYSTEM_TAG, FILE_SYSTEM_TLS_TAG, tls_tag


def _wanted(request: Request, found: Sequence[Found]) -> Iterable[Wanted]:
    if not request.options["efs"]:
        return []
    file_system, vpc = resources.FILE_SYSTEMS.find(found), vpc_id(found)
    options, tags = request.options, request.tags(NAME)
    own = [] if options["file_system_id"] else _own(request, found)
    own += [definition.wanted_access_point(options["file_system_directory"], tags)] if options["file_system_directory"] else []
    attributes = file_system.attributes if file_system else {}
    if attributes.get("vpc", vpc) not in (None, vpc):
        return own  # Nodes mount the file system by its address, because a file system can have mount targets in only one VPC
    zone_names = [zone for zone in zones(request, found) if attributes.get("one_zone") in (None, zone)]
    return [*own, *definition.mount_targets(zone_names)]


def _own(request: Request, found: Sequence[Found]) -> list[Wanted]:
    file_system = definition.file_system(request.options, request.tags(NAME))
    return [file_system, definition.file_system_policy(tls_required=_is_tls_required(request, found))]


def _is_tls_required(request: Request, found: Sequence[Found]) -> bool:
    """Return whether the policy should deny plain NFS.

    A policy that denies plain NFS also affects existing mounts, so all existing and new nodes must use TLS.
    """
    if not request.options["encrypt_in_transit"]:
        return False
    file_system, required = resources.FILE_SYSTEMS.find(found), definition.file_system_policy(tls_required=True).properties["policy"]
    if any(item.address == definition.POLICY and item.properties["policy"] == required for item in found):
        return True
    groups = [item.properties["tags"] for item in found if item.address.kind == "auto_scaling_group"]
    said = [tags.get(FILE_SYSTEM_TLS_TAG) for tags in groups if FILE_SYSTEM_TAG in tags]
    if file_system:
        said += [node.tags.get(FILE_SYSTEM_TLS_TAG) for node in mounting_nodes(request.cloud, FILE_SYSTEM_TAG, file_system.id)]
    return set(said) <= {tls_tag(True)}


def _keeps(request: Request, item: Found) -> bool:
    if item.address.kind == definition.ACCESS_POINT_KIND:
        # Access points that nodes use are kept until the nodes are replaced. A later run deletes these access points
        replaces = request.options.get("replace_nodes") and request.options["wait"]
        return request.present and item.attributes["used_by_nodes"] and not replaces
    kept = (definition.FILE_SYSTEM.kind, definition.POLICY.kind)
    return item.address.kind in kept and (request.present or not request.options["delete_data"])


def _refuse(request: Request, plan: Sequence[Change], _found: Sequence[Found]) -> None:
    """Refuse to delete the file system or its mount targets while nodes of other clusters may use them."""
    deleted = [change.found for change in plan if change.action is Action.DELETE and change.found]
    for item in deleted:
        if item.address.kind == definition.FILE_SYSTEM.kind:
            refuse_in_use(item.id, nodes_of_others(request.cloud, FILE_SYSTEM_TAG, item.id))
        elif item.address.kind == "mount_target":
            vpc_and_zone, file_system_id = (item.attributes["vpc"], item.attributes["zone"]), item.properties["file_system"]
            nodes = nodes_of_others(request.cloud, FILE_SYSTEM_TAG, file_system_id)
            refuse_in_use(file_system_id, [node for node in nodes if node.vpc != vpc_and_zone[0] or (node.vpc, node.zone) == vpc_and_zone])


def _mounts(request: Request, found: Sequence[Found]) -> list[Mount]:
    if not is_mounted(request, found):
        return []
    options, directory, address = request.options, request.options.get("file_system_directory"), _host_address(found)
    through_tls = True if directory else _through_tls(options.get("encrypt_in_transit"), found)
    refs = {FILE_SYSTEM_TAG: Ref(definition.FILE_SYSTEM)}
    if directory:
        refs[ACCESS_POINT_TAG] = Ref(definition.access_point(directory))

    def entry(file_system_id: str, access_point: str | None = None) -> mounts.FstabMount:
        return mounts.efs(
            file_system_id,
            request.cloud.region,
            options["mount_point"],
            address=address,
            encrypted=through_tls,
            dns_suffix=partition_of(request.cloud.region).dns_suffix,
            adopted=resources.FILE_SYSTEMS.is_adopted(found),
            access_point=access_point,
        )

    tags = {**refs, FILE_SYSTEM_TLS_TAG: tls_tag(through_tls), **({FILE_SYSTEM_ADDRESS_TAG: address} if address else {})}
    entries = Computed(entry, tuple(refs.values()))
    return [Mount("efs", options.get("mount_point", ""), "mount_point", tags, entries, servers=_adopted_targets(request, found))]


def _adopted_targets(request: Request, found: Sequence[Found]) -> tuple[Server, ...]:
    targets = [item for item in found if item.address.kind == "mount_target" and item.adopted]
    zone_names = zones(request, found) if targets else []
    return tuple(Server(item, "file_system_id", NFS) for item in targets if item.attributes["zone"] in zone_names)


def _through_tls(option: bool | None, found: Sequence[Found]) -> bool | None:
    """Return the value of the option `encrypt_in_transit`.

    If the option is not set and the nodes were launched with plain NFS, return False, so that the default does not replace any nodes.
    """
    launching = {item.properties["tags"].get(FILE_SYSTEM_TLS_TAG) for item in found if item.address.kind == "auto_scaling_group"}
    has_nodes = any(item.address.kind == "nodes" and item.properties["numbers"] for item in found)
    return False if option is None and launching == {tls_tag(False)} and has_nodes else option


def is_mounted(request: Request, found: Sequence[Found]) -> bool:
    """Return whether nodes mount an EFS file system. A run that does not manage it checks the existing resources instead."""
    if request.manages(NAME):
        return bool(request.options["efs"])
    adopted = bool(request.options.get("file_system_id"))
    return resources.FILE_SYSTEMS.find(found) is not None and (adopted or any(item.address.kind == "mount_target" for item in found))


def _host_address(found: Sequence[Found]) -> str:
    """Return the address that nodes use to mount the file system, or an empty string if they use its DNS name."""
    file_system = resources.FILE_SYSTEMS.find(found)
    return file_system.attributes["address"] if file_system else ""


EFS = resources.FILE_SYSTEMS.component_of(
    resources.KINDS,
    IAM_ACTIONS,
    read=resources.read,
    wanted=_wanted,
    keeps=_keeps,
    refuse=_refuse,
    mounts=_mounts,
    charges=charges,
)
