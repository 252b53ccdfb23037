# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The tags and options of all kinds of storage that nodes can mount, in the order in which nodes mount the storage. Performs no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..option import Option
from .bucket import options as bucket_options
from .bucket import tags as bucket_tags
from .efs import options as efs_options
from .efs import tags as efs_tags
from .lustre import options as lustre_options
from .lustre import tags as lustre_tags
from .tags import StorageTag


class Kind(NamedTuple):
    """A kind of storage.

    A node mounts the storage if the node has the first of `tags`. `settings` maps arguments of the module `shared_storage` to the options
    that set them on hosts whose tags do not. `adopted` is the option that makes a cluster use existing storage for jobs.
    """

    tags: tuple[StorageTag, ...]
    settings: Mapping[str, str]
    adopted: str = ""


KINDS = {
    "efs": Kind(efs_tags.TAGS, efs_options.SETTINGS, efs_options.ADOPTED),
    "lustre": Kind(lustre_tags.TAGS, lustre_options.SETTINGS, lustre_options.ADOPTED),
    "bucket": Kind(bucket_tags.TAGS, bucket_options.SETTINGS),
}
TAGS = tuple(tag for kind in KINDS.values() for tag in kind.tags)
TAG_KEYS = tuple(tag.key for tag in TAGS)
OPTIONS: tuple[Option, ...] = (*efs_options.OPTIONS, *lustre_options.OPTIONS, *bucket_options.OPTIONS)
# The components for the kinds of storage that a cluster can own.
COMPONENTS = (efs_options.NAME, lustre_options.NAME)
# The options that enable storage for jobs.
SWITCHES = (efs_options.SWITCH, lustre_options.SWITCH)
# The options that make a cluster use existing storage for jobs.
ADOPTED = tuple(kind.adopted for kind in KINDS.values() if kind.adopted)
# When options of storage have no effect.
UNUSED_RULES = (*efs_options.UNUSED_RULES, *lustre_options.UNUSED_RULES, *bucket_options.UNUSED_RULES)
# Advice for file systems that cannot move to another network with their cluster.
BOUND_TO_NETWORK = (lustre_options.BOUND_TO_NETWORK,)
# The rules that an existing security group for storage must have.
GROUP_RULES = (efs_options.GROUP_RULES, lustre_options.GROUP_RULES)


def told(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the mounts that a node's tags describe. The tags contain arguments of the module `shared_storage`."""
    return [
        {"kind": name, **{tag.argument: tag.value(tags) for tag in kind.tags if tag.is_told(tags)}}
        for name, kind in KINDS.items()
        if kind.tags[0].is_told(tags)
    ]
