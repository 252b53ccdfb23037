# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The components and validators of all kinds of storage, in the order in which nodes mount the storage."""

from __future__ import annotations

from collections.abc import Sequence

from ..component import Mount, Request
from ..plan.resources import Found
from ..validator import Validator
from .bucket import validators as bucket_validators
from .bucket.component import BUCKET_MOUNT
from .efs import validators as efs_validators
from .efs.component import EFS
from .lustre import validators as lustre_validators
from .lustre.component import LUSTRE

STORAGE = (EFS, LUSTRE, BUCKET_MOUNT)
STORAGE_NAMES = frozenset(component.name for component in STORAGE)
FILE_SYSTEM_NAMES = frozenset(component.name for component in STORAGE if component.data_kinds)
VALIDATORS: tuple[Validator, ...] = (*efs_validators.VALIDATORS, *lustre_validators.VALIDATORS, *bucket_validators.VALIDATORS)


def mounts(request: Request, found: Sequence[Found]) -> list[Mount]:
    return [mount for component in STORAGE for mount in component.mounts(request, found)]
