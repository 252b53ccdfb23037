# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Applies a plan. Each change starts as soon as its prerequisites are done, in parallel with other changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from .errors import ApplyError, HalfDeleted, NotReady
from .planning import Action, Change, Kind, sorter_of
from .resources import Address, Found, resolve

CONCURRENCY = 16


def apply_plan(
    cloud: Any,
    plan: Sequence[Change],
    found: Iterable[Found],
    kinds: Mapping[str, Kind],
    *,
    wait_for_all: bool = True,
    before_each: Callable[[], None] = lambda: None,
) -> dict[Address, Found]:
    """Apply the changes and return the resulting resources.

    The run waits until a resource is ready if another change needs it, or if `wait_for_all` is true. If `before_each` raises an exception,
    the change is not made. After a failure, no further changes start, and ApplyError is raised when the changes in progress have finished.
    """
    execution = _Execution(plan, found)
    needed = {address for change in plan for address in change.prerequisites}

    def apply(change: Change, known: dict[Address, Found]) -> Found | None:
        settle = wait_for_all or change.address in needed
        return _apply(cloud, change, known, kinds[change.address.kind], settle, before_each)

    with ThreadPoolExecutor(max_workers=CONCURRENCY) as pool:
        while execution.goes_on:
            for change in execution.start():
                execution.running[pool.submit(apply, change, dict(execution.known))] = change
            completed, _pending = wait(execution.running, return_when=FIRST_COMPLETED)
            for future in completed:
                execution.finish(future)
    if execution.failure:
        execution.failure.applied = execution.applied
        raise execution.failure
    return execution.known


class _Execution:
    """The state of an execution: the running changes, the applied changes and the existing resources."""

    def __init__(self, plan: Sequence[Change], found: Iterable[Found]) -> None:
        self.known = {item.address: item for item in found}
        self.running: dict[Future[Found | None], Change] = {}
        self.applied: list[Change] = []
        self.failure: ApplyError | None = None
        self._changes = {change.address: change for change in plan}
        self._sorter = sorter_of(plan)

    @property
    def goes_on(self) -> bool:
        return bool(self.running or (self._sorter.is_active() and not self.failure))

    def start(self) -> list[Change]:
        """Return the changes that can start now, or an empty list after a failure."""
        return [] if self.failure else [self._changes[address] for address in self._sorter.get_ready()]

    def finish(self, future: Future[Found | None]) -> None:
        change = self.running.pop(future)
        try:
            result = future.result()
        except Exception as error:  # pylint: disable=broad-exception-caught
            if isinstance(error, (NotReady, HalfDeleted)):
                self.applied.append(change)
            cause = error.__cause__ if isinstance(error, HalfDeleted) and isinstance(error.__cause__, Exception) else error
            self.failure = self.failure or ApplyError(change, cause, self.applied)
            return
        self.applied.append(change)
        self.known.pop(change.address, None)
        if result:
            self.known[change.address] = result
        self._sorter.done(change.address)


def _apply(
    cloud: Any, change: Change, known: dict[Address, Found], kind: Kind, settle: bool, before_each: Callable[[], None]
) -> Found | None:
    before_each()
    if change.action is Action.DELETE:
        kind.delete(cloud, change.found)
        return None
    wanted = {**change.wanted.properties, **change.wanted.parameters}
    properties = {name: resolve(value, known) for name, value in wanted.items() if value is not None}
    if change.found is None:
        result = kind.create(cloud, change.address, properties)
    else:
        # What the change leaves as it is, such as what waits until nodes may be replaced
        left = (change.found.properties.keys() & change.wanted.properties.keys() & properties.keys()) - change.after.keys()
        properties.update({name: change.found.properties[name] for name in left})
        updated = kind.update(cloud, change.found, properties, frozenset(change.after))
        result = updated or replace(change.found, properties={**change.found.properties, **properties})
    if not settle or not kind.settle:
        return result
    try:
        return kind.settle(cloud, result)
    except Exception as error:
        raise NotReady(f"the resource exists, but is not ready: {error}") from error
