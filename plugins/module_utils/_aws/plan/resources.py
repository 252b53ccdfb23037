# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The wanted and found resources of a plan, and the references between these resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple

KNOWN_AFTER_APPLY = "(known after apply)"


Properties = Mapping[str, Any]


class Address(NamedTuple):
    """The identity of a resource in its cluster, such as `subnet private-us-east-1a`."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


@dataclass(frozen=True)
class Ref:
    """A reference to an attribute of another resource, usually the ID that AWS assigns when it creates the resource."""

    address: Address
    attribute: str = "id"


@dataclass(frozen=True)
class Computed:
    """A value that `function` computes from references as soon as all of them are known."""

    function: Callable[..., Any]
    refs: tuple[Ref, ...]


class Unknown:
    """The value of a reference to a resource that does not exist yet."""

    def __repr__(self) -> str:
        return KNOWN_AFTER_APPLY

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown)

    def __hash__(self) -> int:
        return hash(Unknown)


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Wanted:
    """A resource as the definition describes it. Properties that the definition does not set are not changed."""

    address: Address
    properties: Mapping[str, Any] = field(default_factory=dict)
    # Prerequisites in addition to the references in the properties.
    after: tuple[Address, ...] = ()
    # Additional arguments for `create` and `update` that the plan does not compare.
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """A resource as it exists in AWS.

    `properties` can be compared with the properties of `Wanted`. `attributes` contains the values to which references of other resources
    refer. An adopted resource does not belong to the cluster: other resources may refer to it, but the plan never changes or deletes it.
    """

    address: Address
    id: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    adopted: bool = False

    def attribute(self, name: str) -> Any:
        return self.id if name == "id" else self.attributes[name]


def references(value: Any) -> Iterator[Address]:
    """Yield the addresses of all references in a value, at any nesting depth."""
    if isinstance(value, Ref):
        yield value.address
    elif isinstance(value, Computed):
        for ref in value.refs:
            yield ref.address
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from references(item)


def resolve(value: Any, known: Mapping[Address, Found]) -> Any:
    """Return the value with every reference replaced by the referenced attribute, or by `UNKNOWN` if the resource does not exist yet."""
    if isinstance(value, Ref):
        return known[value.address].attribute(value.attribute) if value.address in known else UNKNOWN
    if isinstance(value, Computed):
        inputs = [resolve(ref, known) for ref in value.refs]
        return UNKNOWN if UNKNOWN in inputs else value.function(*inputs)
    if isinstance(value, Mapping):
        return {key: resolve(item, known) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(resolve(item, known) for item in value)
    return value


def printable(value: Any) -> Any:
    """Return the value in a form that JSON supports, with unknown values as strings and sets as sorted lists."""
    if isinstance(value, Unknown):
        return KNOWN_AFTER_APPLY
    if isinstance(value, Mapping):
        return {str(key): printable(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((printable(item) for item in value), key=str)
    if isinstance(value, (list, tuple)):
        return [printable(item) for item in value]
    return value
