# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Applies a plan: every change as soon as what it waits for is done, many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.errors import ApplyError, NotReady
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change, Kind
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found, resolve

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
    """Applies the changes and returns the resources as they are afterwards.

    A resource is waited for where another one of the plan needs it, and everywhere if C(wait_for_all). Raises ApplyError;
    changes that run at that moment are finished first, no further ones are started. A change for which C(before_each) raises is not made.
    """
    known = {item.address: item for item in found}
    needed = {address for change in plan for address in change.prerequisites}
    waiting = list(plan)
    applied: list[Change] = []
    running: dict[Future[Found | None], Change] = {}
    failure: ApplyError | None = None

    with ThreadPoolExecutor(max_workers=CONCURRENCY) as pool:
        while running or (waiting and not failure):
            if not failure:
                finished = {change.address for change in applied}
                for change in [item for item in waiting if item.prerequisites <= finished]:
                    waiting.remove(change)
                    settle = wait_for_all or change.address in needed
                    running[pool.submit(_apply, cloud, change, dict(known), kinds[change.address.kind], settle, before_each)] = change
            completed, _pending = wait(running, return_when=FIRST_COMPLETED)
            for future in completed:
                change = running.pop(future)
                try:
                    result = future.result()
                except Exception as error:  # pylint: disable=broad-exception-caught
                    if isinstance(error, NotReady):
                        applied.append(change)
                    failure = failure or ApplyError(change, error, applied)
                    continue
                applied.append(change)
                known.pop(change.address, None)
                if result:
                    known[change.address] = result
    if failure:
        failure.applied = applied
        raise failure
    return known


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
        updated = kind.update(cloud, change.found, properties, frozenset(change.after))
        result = updated or replace(change.found, properties={**change.found.properties, **properties})
    if not settle or not kind.settle:
        return result
    try:
        return kind.settle(cloud, result)
    except Exception as error:
        raise NotReady(f"it is there, and not ready: {error}") from error
