# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Errors that occur when a plan is made or applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .planning import Change


class ForbiddenChange(Exception):
    """The plan contains changes that would require replacing a resource."""


class DuplicateResources(ForbiddenChange):
    """Several resources have the address of one desired resource, so the tags do not show which resource belongs to the cluster."""


class NotReady(Exception):
    """A resource was created or changed, but cannot be used yet."""


class ApplyError(Exception):
    """A change failed. `applied` lists all changes that were applied. `cause` is the first error."""

    def __init__(self, change: Change, cause: Exception, applied: Sequence[Change]) -> None:
        super().__init__(f"Could not {change.action.value} {change.address}: {cause}")
        self.change, self.cause, self.applied = change, cause, list(applied)
