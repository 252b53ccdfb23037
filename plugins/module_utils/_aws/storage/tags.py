# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The declaration of the tags that describe the mounts of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


def _any(_text: str) -> None:
    """Accept every value."""


class StorageTag(NamedTuple):
    """One property of a mount. A tag on the nodes and their group contains the property's value.

    `argument` is the name of the corresponding argument of the module `shared_storage`. `variable` is the name of the corresponding
    inventory variable, if there is one. `check` raises ValueError for an invalid value. `values` maps tag values to property values. Tag
    values without a property value are ignored.
    """

    key: str
    argument: str
    variable: str = ""
    check: Callable[[str], None] = _any
    values: Mapping[str, Any] | None = None
    # Whether the value must stay the same while nodes are running, because jobs depend on it.
    #
    # If `kept` is true, `variable` is also an option name.
    kept: bool = False

    def is_told(self, tags: Mapping[str, str]) -> bool:
        return self.key in tags and (self.values is None or tags[self.key] in self.values)

    def value(self, tags: Mapping[str, str]) -> Any:
        return tags[self.key] if self.values is None else self.values[tags[self.key]]
