# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shared storage on FSx for Lustre as one component."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClientError, error_code
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Component, Mount, Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.tagged import NAME as NETWORK
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.zones import zones
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Computed, Found, Ref, Wanted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage import common
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre import definition, resources
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.iam_actions import IAM_ACTIONS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.tags import LUSTRE_SOURCE_TAG, LUSTRE_TAG
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.users import others, refuse_in_use
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage import mounts


def _read(request: Request, network: Sequence[Found]) -> list[Found]:
    try:
        return resources.read(request, network)
    except ClientError as error:
        # An account that keeps people away from FSx is no obstacle to those who do without
        if _is_wished(request) or error_code(error) not in ("AccessDenied", "AccessDeniedException"):
            raise
        return []


def _is_wished(request: Request) -> bool:
    return bool(request.options.get("lustre") or request.options.get("lustre_file_system_id"))


def _wanted(request: Request, found: Sequence[Found]) -> Iterable[Wanted]:
    options, file_system = request.options, find(found)
    if not options["lustre"] or options["lustre_file_system_id"]:
        return []
    subnet = file_system.properties["subnet"] if file_system else None
    existing = next((item.properties["zone"] for item in found if item.address.kind == "subnet" and item.id == subnet), None)
    return definition.wanted(options, existing or zones(request, found)[0], request.tags(resources.NAME))


def _keeps(request: Request, item: Found) -> bool:
    """Data stays, and what it is linked to unless the definition has other links."""
    if not request.present:
        return not request.options["delete_data"]
    described = request.options["lustre"] and not request.options["lustre_file_system_id"]
    return item.address.kind == definition.LUSTRE.kind or not described


def _refuse(request: Request, plan: Sequence[Change], found: Sequence[Found]) -> None:
    """A file system stays in its place, and reachable, as long as other clusters mount it."""
    if not plan or request.present:
        return
    for item in found:
        if item.address.kind == definition.LUSTRE.kind and not item.adopted:
            refuse_in_use(item.id, others(request.cloud, LUSTRE_TAG, item.id))


def _mounts(request: Request, found: Sequence[Found]) -> list[Mount]:
    if not is_mounted(request, found):
        return []
    options, source = request.options, Ref(definition.LUSTRE, "source")

    def entry(source: str) -> mounts.Mount:
        return mounts.lustre(source, options["lustre_mount_point"])._replace(adopted=is_adopted(found))

    tags = {LUSTRE_TAG: Ref(definition.LUSTRE), LUSTRE_SOURCE_TAG: source}
    return [Mount("lustre", options.get("lustre_mount_point", ""), "lustre_mount_point", tags, Computed(entry, (source,)))]


LUSTRE = Component(
    resources.NAME,
    resources.KINDS,
    IAM_ACTIONS,
    _read,
    _wanted,
    _keeps,
    _refuse,
    mounts=_mounts,
    reads_after=(NETWORK,),
    data_kinds=frozenset({definition.LUSTRE.kind}),
    billed={definition.LUSTRE.kind: "Lustre file system"},
)


def find(found: Iterable[Found]) -> Found | None:
    """The file system of the cluster, if there is one."""
    return common.find(found, definition.LUSTRE)


def is_adopted(found: Iterable[Found]) -> bool:
    """Whether the file system belongs to somebody else."""
    file_system = find(found)
    return file_system is not None and file_system.adopted


def is_mounted(request: Request, found: Sequence[Found]) -> bool:
    """Whether the nodes mount a Lustre file system."""
    if request.manages(resources.NAME):
        return _is_wished(request)
    return find(found) is not None
