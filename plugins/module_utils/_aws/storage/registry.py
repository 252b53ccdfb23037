# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The components and validators of all kinds of storage, in the order in which nodes mount the storage."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Mount, Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.bucket import validators as bucket_validators
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.bucket.component import BUCKET_MOUNT
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs import validators as efs_validators
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs.component import EFS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre import validators as lustre_validators
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.component import LUSTRE
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validator import Validator

STORAGE = (EFS, LUSTRE, BUCKET_MOUNT)
STORAGE_NAMES = frozenset(component.name for component in STORAGE)
FILE_SYSTEM_NAMES = frozenset(component.name for component in STORAGE if component.data_kinds)
VALIDATORS: tuple[Validator, ...] = (*efs_validators.VALIDATORS, *lustre_validators.VALIDATORS, *bucket_validators.VALIDATORS)


def mounts(request: Request, found: Sequence[Found]) -> list[Mount]:
    """Return all mounts of the nodes."""
    return [mount for component in STORAGE for mount in component.mounts(request, found)]
