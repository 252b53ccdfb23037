# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Errors that occur when a plan is made or applied."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .planning import Change


class ForbiddenChange(Exception):
    """The plan contains changes that would require replacing a resource."""


class DuplicateResources(ForbiddenChange):
    """Several resources have the address of one desired resource, so the tags do not show which resource belongs to the cluster."""


class NotReady(Exception):
    """A resource was created or changed, but cannot be used yet."""


class HalfDeleted(Exception):
    """A deletion failed after its beginning, so the resource still exists, but no longer works. `__cause__` is the error."""


@contextlib.contextmanager
def half_deleted() -> Iterator[None]:
    """Raise HalfDeleted for an error, at a place from which on the resource no longer works."""
    try:
        yield
    except Exception as error:
        raise HalfDeleted from error


class ApplyError(Exception):
    """A change failed. `applied` lists all changes that were applied. `cause` is the first error."""

    def __init__(self, change: Change, cause: Exception, applied: Sequence[Change]) -> None:
        super().__init__(f"Could not {change.action.value} {change.address}: {cause}")
        self.change, self.cause, self.applied = change, cause, list(applied)
