# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The tags by which nodes and their groups tell what they mount. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage import mounts

FILE_SYSTEM_TAG = "deeplearning:file-system"
FILE_SYSTEM_ADDRESS_TAG = "deeplearning:file-system-address"  # where its name says nothing to the nodes
FILE_SYSTEM_TLS_TAG = "deeplearning:file-system-tls"  # whether nodes mount it through TLS, one of TLS
ACCESS_POINT_TAG = "deeplearning:file-system-access-point"  # through which they mount it, where not the whole
LUSTRE_TAG = "deeplearning:lustre-file-system"
LUSTRE_SOURCE_TAG = "deeplearning:lustre-source"  # what mount(8) calls it
BUCKET_MOUNT_TAG = "deeplearning:bucket-mount"
BUCKET_MOUNT_POINT_TAG = "deeplearning:bucket-mount-point"
TLS = {"true": True, "false": False, "preferred": None}
"""The option encrypt_in_transit by what the tag says of it; preferred is where hosts have the client."""


def _any(_text: str) -> None:
    """Accept every value."""


class StorageTag(NamedTuple):
    """One thing that a node's tags tell of what it mounts.

    C(argument) is its name as an argument of the module shared_storage, C(variable) the one that it has by itself in the inventory, if any.
    C(check) raises ValueError for a value that is none. C(values) are what the texts of the tag stand for; another text tells nothing.
    """

    key: str
    argument: str
    variable: str = ""
    check: Callable[[str], None] = _any
    values: Mapping[str, Any] | None = None
    kept: bool = False
    """Whether it is the same as long as nodes run: they do without nothing that jobs are on. C(variable) is an option then."""

    def is_told(self, tags: Mapping[str, str]) -> bool:
        """Return whether the tags tell it."""
        return self.key in tags and (self.values is None or tags[self.key] in self.values)

    def value(self, tags: Mapping[str, str]) -> Any:
        """Return what the tags tell of it."""
        return tags[self.key] if self.values is None else self.values[tags[self.key]]


KINDS: dict[str, tuple[StorageTag, ...]] = {
    "efs": (
        StorageTag(FILE_SYSTEM_TAG, "source", "file_system_id", mounts.check_file_system_id, kept=True),
        StorageTag(FILE_SYSTEM_ADDRESS_TAG, "address", "file_system_address", mounts.check_address),
        StorageTag(FILE_SYSTEM_TLS_TAG, "encrypt_in_transit", "file_system_tls", values=TLS),
        StorageTag(ACCESS_POINT_TAG, "access_point", "file_system_access_point", mounts.check_access_point_id),
    ),
    "lustre": (
        StorageTag(LUSTRE_SOURCE_TAG, "source", "lustre_source", mounts.check_lustre_source),
        StorageTag(LUSTRE_TAG, "file_system_id", "lustre_file_system_id", mounts.check_file_system_id, kept=True),
    ),
    "bucket": (
        StorageTag(BUCKET_MOUNT_TAG, "source", check=mounts.check_bucket_source),
        StorageTag(BUCKET_MOUNT_POINT_TAG, "path", check=mounts.check_mount_point),
    ),
}
"""The tags of each kind of storage that nodes mount, what is mounted first."""
TAGS = tuple(tag for tags in KINDS.values() for tag in tags)


def tls_tag(encrypt_in_transit: bool | None) -> str:
    """What the tag says of the option."""
    return next(text for text, option in TLS.items() if option is encrypt_in_transit)


def told(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """What a node with these tags mounts, each as arguments of the module shared_storage, as far as the tags tell."""
    return [
        {"kind": kind, **{tag.argument: tag.value(tags) for tag in own if tag.is_told(tags)}}
        for kind, own in KINDS.items()
        if own[0].is_told(tags)
    ]
