# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for shared storage on FSx for Lustre, which the module `lustre_file_system` provisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...._common.shared_storage import mounts
from ...client import ClientError
from ...component import Mount, Request, Server
from ...error_codes import error_code
from ...network import adopted
from ...network.definition import SecurityRule
from ...network.zones import zones
from ...plan.planning import Change
from ...plan.resources import Computed, Found, Ref, Wanted
from ..mounting_nodes import nodes_of_others, refuse_in_use
from ..routing import vpc_id
from . import definition, resources
from .charges import charges
from .iam_actions import IAM_ACTIONS
from .options import NAME
from .tags import LUSTRE_SOURCE_TAG, LUSTRE_TAG


def _read(request: Request, network: Sequence[Found]) -> list[Found]:
    try:
        return resources.read(request, network)
    except ClientError as error:
        # Users of clusters without FSx may lack permissions for FSx
        if _is_wished(request) or error_code(error) not in ("AccessDenied", "AccessDeniedException"):
            raise
        return []


def _is_wished(request: Request) -> bool:
    return bool(request.options.get("lustre") or request.options.get("lustre_file_system_id"))


def _is_own_described(request: Request) -> bool:
    return bool(request.options["lustre"] and not request.options["lustre_file_system_id"])


def _wanted(request: Request, found: Sequence[Found]) -> Iterable[Wanted]:
    options, file_system = request.options, resources.FILE_SYSTEMS.find(found)
    if not _is_own_described(request):
        return []
    subnet = file_system.properties["subnet"] if file_system else None
    existing = next((item.properties["zone"] for item in found if item.address.kind == "subnet" and item.id == subnet), None)
    return definition.wanted(options, existing or zones(request, found)[0], request.tags(NAME))


def _keeps(request: Request, item: Found) -> bool:
    """Return whether to keep a resource that is not part of the desired state.

    If a cluster is deleted, all data is kept unless `delete_data` is set. All other runs keep the file system. These runs also keep the
    file system's links to S3, unless the definition describes the cluster's own file system.
    """
    if not request.present:
        return not request.options["delete_data"]
    return item.address.kind == definition.LUSTRE.kind or not _is_own_described(request)


def _refuse(request: Request, plan: Sequence[Change], found: Sequence[Found]) -> None:
    """Refuse the deletion while nodes of other clusters have the file system mounted.

    The deletion also affects the network resources through which nodes of other clusters reach the file system.
    """
    if not plan or request.present:
        return
    for item in found:
        if item.address.kind == definition.LUSTRE.kind and not item.adopted:
            refuse_in_use(item.id, nodes_of_others(request.cloud, LUSTRE_TAG, item.id))


def _mounts(request: Request, found: Sequence[Found]) -> list[Mount]:
    if not is_mounted(request, found):
        return []
    options, source = request.options, Ref(definition.LUSTRE, "source")

    def entry(source: str) -> mounts.FstabMount:
        return mounts.lustre(source, options["lustre_mount_point"])._replace(adopted=resources.FILE_SYSTEMS.is_adopted(found))

    tags = {LUSTRE_TAG: Ref(definition.LUSTRE), LUSTRE_SOURCE_TAG: source}
    servers, mount_point = _adopted_servers(found), options.get("lustre_mount_point", "")
    return [Mount("lustre", mount_point, "lustre_mount_point", tags, Computed(entry, (source,)), servers=servers)]


def _adopted_servers(found: Sequence[Found]) -> tuple[Server, ...]:
    """Return the adopted file system if it is in the cluster's VPC. Validators check only port 988, on which Lustre servers listen."""
    item = resources.FILE_SYSTEMS.find(found)
    here = item is not None and item.adopted and item.attributes["vpc"] == vpc_id(found)
    return (Server(item, "lustre_file_system_id", definition.PORTS[0]),) if item and here else ()


def _server_rules(request: Request, found: Sequence[Found], subnet_cidrs: Mapping[str, str]) -> set[SecurityRule]:
    """Return the security group rules that allow traffic from the Lustre servers to the nodes.

    Servers of the cluster's own file system are in the private subnets. Rules for a file system that the cluster used earlier are kept.
    """
    file_systems = [item for item in found if item.address.kind == definition.LUSTRE.kind]
    cidrs = {cidr for item in file_systems for cidr in _cidrs_of_servers(request, found, item)}
    if _is_own_described(request) or any(not item.adopted for item in file_systems):
        cidrs |= {cidr for key, cidr in subnet_cidrs.items() if key.startswith("private-")}
    return {(*ports, cidr) for ports in definition.PORTS for cidr in cidrs}


def _cidrs_of_servers(request: Request, found: Sequence[Found], file_system: Found) -> list[str]:
    """Return the address range of the file system's subnet, or only the file system's address if the subnet cannot be read."""
    subnet = file_system.properties["subnet"]
    known = [item.properties["cidr"] for item in found if item.address.kind == "subnet" and item.id == subnet]
    described = known or [item["CidrBlock"] for item in adopted.subnets(request.cloud, [subnet])]
    return described or [f"{file_system.attributes['address']}/32"]


def is_mounted(request: Request, found: Sequence[Found]) -> bool:
    if request.manages(NAME):
        return _is_wished(request)
    return resources.FILE_SYSTEMS.find(found) is not None


LUSTRE = resources.FILE_SYSTEMS.component_of(
    resources.KINDS,
    IAM_ACTIONS,
    read=_read,
    wanted=_wanted,
    keeps=_keeps,
    refuse=_refuse,
    mounts=_mounts,
    server_rules=_server_rules,
    charges=charges,
)
