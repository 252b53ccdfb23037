# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What one tag of a node or of its group says of a mount. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


def _any(_text: str) -> None:
    """Accept every value."""


class StorageTag(NamedTuple):
    """One property of a mount, as a tag of nodes and of their group holds it.

    `argument` is its name as an argument of the module `shared_storage`. `variable` is its own variable in the inventory, if it has one.
    `check` raises ValueError for a value that is not possible. `values` maps the texts of the tag to values; other texts are ignored.
    """

    key: str
    argument: str
    variable: str = ""
    check: Callable[[str], None] = _any
    values: Mapping[str, Any] | None = None
    kept: bool = False
    """Whether the value cannot change while nodes run, because jobs depend on it. `variable` is an option then."""

    def is_told(self, tags: Mapping[str, str]) -> bool:
        """Return whether the tags hold the property."""
        return self.key in tags and (self.values is None or tags[self.key] in self.values)

    def value(self, tags: Mapping[str, str]) -> Any:
        """Return the property's value in the tags."""
        return tags[self.key] if self.values is None else self.values[tags[self.key]]
