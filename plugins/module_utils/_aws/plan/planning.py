# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Compares the wanted resources with the found resources, and plans the necessary changes. Performs no I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

try:
    from graphlib import CycleError, TopologicalSorter
except ImportError:
    pass  # Python 3.8, which ansible-test uses only to import the file

from ..message_parts import P
from .errors import DuplicateResources, ForbiddenChange
from .resources import Address, Found, Wanted, printable, references, resolve


class Policy(Enum):
    IN_PLACE = "in_place"
    REPLACE = "replace"
    FORBIDDEN = "forbidden"


class Action(Enum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


def _cannot_update(_cloud: Any, found: Found, *_: Any) -> Found | None:
    raise TypeError(f"A {found.address.kind} has no properties that can be updated")


@dataclass(frozen=True)
class Kind:
    """The functions and rules for changes to resources of one kind.

    `create(cloud, address, properties)` returns the new resource. `update(cloud, found, properties, changed)` may return the changed
    resource. `delete(cloud, found)` returns nothing. `properties` contains the properties after the change and
    `Wanted.parameters`. `settle(cloud, found)` waits until other resources can use the resource, and returns the resource.
    """

    name: str
    create: Callable[..., Found]
    delete: Callable[..., None]
    update: Callable[..., Found | None] = _cannot_update
    settle: Callable[..., Found] | None = None
    # Properties that can be changed in place.
    updatable: frozenset[str] = frozenset()
    # Properties that can be changed only by replacing nodes.
    #
    # Properties that are neither in `updatable` nor in `replacing` cannot be changed.
    replacing: frozenset[str] = frozenset()
    # Resource kinds that depend on this kind. Resources of these kinds must be deleted first.
    deleted_after: tuple[str, ...] = ()
    # Resource kinds that this kind depends on. Resources of these kinds must be deleted after the resources of this kind.
    deleted_before: tuple[str, ...] = ()
    # Whether a resource that is no longer wanted is deleted before the changes that come after it, and not after all changes.
    deleted_first: bool = False
    advice: str = "Restore the former value, or delete the cluster (the data is kept) and create it again."

    def policy(self, name: str) -> Policy:
        if name in self.replacing:
            return Policy.REPLACE
        return Policy.IN_PLACE if name in self.updatable else Policy.FORBIDDEN


def users_of(kind: str, kinds: Mapping[str, Kind]) -> set[str]:
    """Return the kinds whose resources use resources of `kind` and must therefore be deleted first."""
    return {*kinds[kind].deleted_after, *(name for name, other in kinds.items() if kind in other.deleted_before)}


@dataclass(frozen=True)
class Change:
    """One step from the actual to the desired state. `before` and `after` contain only the properties that differ."""

    address: Address
    action: Action
    wanted: Wanted
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    found: Found | None = None
    prerequisites: frozenset[Address] = frozenset()
    # Whether an update affects the resource itself (`IN_PLACE`), or only new nodes (`REPLACE`).
    policy: Policy = Policy.IN_PLACE

    def applied(self, known: Mapping[Address, Found]) -> Change:
        """Return the applied change with the values that were not known before. `known` contains the resulting resources."""
        return replace(self, after={name: resolve(self.wanted.properties[name], known) for name in self.after})

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.address.kind,
            "key": self.address.key,
            "action": self.action.value,
            "policy": self.policy.value,
            "before": printable(self.before),
            "after": printable(self.after),
        }

    def difference(self) -> dict[str, Any]:
        """Return the change as a dictionary that Ansible shows with `--diff`."""
        header = f"{self.action.value} {self.address}"
        before, after = printable(self.before), printable(self.after)
        return {"before_header": header, "after_header": header, "before": before or "", "after": after or ""}


def make_plan(
    wanted: Iterable[Wanted], found: Iterable[Found], kinds: Mapping[str, Kind], keep: Callable[[Found], bool] = lambda _found: False
) -> list[Change]:
    """Return the changes that lead from `found` to `wanted`, in an order in which they can be applied.

    A found resource is deleted unless it is wanted, adopted or kept. Raises ForbiddenChange, which lists all forbidden changes, or
    DuplicateResources.
    """
    wanted, found = list(wanted), list(found)
    addresses = {item.address for item in wanted}
    _refuse_duplicates(item for item in found if item.address in addresses)
    known = {item.address: item for item in found}
    changes = {}
    for item in wanted:
        change = _compare(item, known)
        if change:
            changes[item.address] = change
    deletes = [item for item in known.values() if item.address not in addresses and not item.adopted and not keep(item)]
    _refuse_forbidden(changes.values(), kinds)
    ordered = _prerequisites(changes, deletes, kinds)
    return _sorted([_with_policy(change, kinds[change.address.kind]) for change in ordered])


def split_replacing(plan: Iterable[Change], kinds: Mapping[str, Kind]) -> tuple[list[Change], list[Change]]:
    """Return two lists: the changes that do not replace nodes, and the changes that do."""
    now, later = [], []
    for change in plan:
        if change.policy is not Policy.REPLACE:
            now.append(change)
            continue
        replacing = kinds[change.address.kind].replacing
        parts = _only(change, change.after.keys() - replacing), _only(change, change.after.keys() & replacing)
        now += [replace(part, policy=Policy.IN_PLACE) for part in parts[:1] if part.after]
        later.append(parts[1])
    remaining = {change.address for change in now}
    return [replace(change, prerequisites=change.prerequisites & remaining) for change in now], later


def _only(change: Change, names: Collection[str]) -> Change:
    return replace(
        change,
        before={name: value for name, value in change.before.items() if name in names},
        after={name: value for name, value in change.after.items() if name in names},
    )


def _with_policy(change: Change, kind: Kind) -> Change:
    replacing = change.action is Action.UPDATE and change.after.keys() & kind.replacing
    return replace(change, policy=Policy.REPLACE) if replacing else change


def _compare(wanted: Wanted, known: Mapping[Address, Found]) -> Change | None:
    properties = {name: resolve(value, known) for name, value in wanted.properties.items() if value is not None}
    found = known.get(wanted.address)
    if found is None:
        return Change(wanted.address, Action.CREATE, wanted, after=properties)
    if found.adopted:
        return None
    different = [name for name, value in properties.items() if found.properties.get(name) != value]
    if not different:
        return None
    return Change(
        wanted.address,
        Action.UPDATE,
        wanted,
        before={name: found.properties.get(name) for name in different},
        after={name: properties[name] for name in different},
        found=found,
    )


def _refuse_forbidden(changes: Iterable[Change], kinds: Mapping[str, Kind]) -> None:
    messages = [
        f"{change.address}: {name} is {printable(change.before[name])!r} and cannot be changed to {printable(value)!r}. "
        f"{kinds[change.address.kind].advice.format(P=P)}"
        for change in changes
        if change.action is Action.UPDATE
        for name, value in change.after.items()
        if kinds[change.address.kind].policy(name) is Policy.FORBIDDEN
    ]
    if messages:
        raise ForbiddenChange(" ".join(messages))


def _refuse_duplicates(found: Iterable[Found]) -> None:
    """Raise DuplicateResources if several resources have the same address.

    An adopted resource takes the place of the cluster's own resource.
    """
    ids = dict[Address, set[str]]()
    for item in found:
        if not item.adopted:
            ids.setdefault(item.address, set()).add(item.id)
    messages = [
        f"{address}: {' and '.join(sorted(duplicates))} have the tags of this resource. Find out who created or tagged them, and remove "
        "the tag deeplearning:cluster from all but the one that the cluster uses."
        for address, duplicates in ids.items()
        if len(duplicates) > 1
    ]
    if messages:
        raise DuplicateResources(" ".join(messages))


def _prerequisites(changes: Mapping[Address, Change], deletes: Sequence[Found], kinds: Mapping[str, Kind]) -> list[Change]:
    """Return all changes, with `prerequisites` set.

    The prerequisites of a creation or update are the changes on which it depends. Deletions come last, except those of `deleted_first`.
    """
    result = []
    first = {item.address for item in deletes if kinds[item.address.kind].deleted_first}
    for change in changes.values():
        needed = {*references(change.wanted.properties), *change.wanted.after} & (changes.keys() | first)
        result.append(replace(change, prerequisites=frozenset(needed)))
    for item in deletes:
        kinds_of_users = users_of(item.address.kind, kinds)
        users = {other.address for other in deletes if other.address.kind in kinds_of_users}
        delete = Change(item.address, Action.DELETE, Wanted(item.address), before=item.properties, found=item)
        earlier = set() if item.address in first else changes.keys()
        result.append(replace(delete, prerequisites=frozenset(users | earlier)))
    return result


def _sorted(changes: Sequence[Change]) -> list[Change]:
    """Return the changes in topological order. Changes that can run at the same time keep their order."""
    sorter = sorter_of(changes)
    result = list[Change]()
    while sorter.is_active():
        ready = set(sorter.get_ready())
        result += [change for change in changes if change.address in ready]
        sorter.done(*ready)
    return result


def sorter_of(changes: Sequence[Change]) -> TopologicalSorter[Address]:
    """Return a sorter that yields the address of each change as soon as the prerequisites of the change are done.

    Raises ValueError for a dependency cycle.
    """
    sorter = TopologicalSorter({change.address: change.prerequisites for change in changes})
    try:
        sorter.prepare()
    except CycleError as error:
        circle = [str(change.address) for change in changes if change.address in error.args[1]]
        raise ValueError(f"The changes depend on each other: {', '.join(circle)}") from error
    return sorter
