# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Third stage: make the plan, and refuse harmful changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..client import ClusterError
from ..component import Request
from ..node_group import capacity
from ..plan.planning import Action, Change, make_plan, split_replacing, users_of
from ..plan.resources import KNOWN_AFTER_APPLY, Found, Wanted, references
from .components import COMPONENT_OF_KIND, DATA_KINDS, KINDS
from .context import Run


def plan_changes(run: Run, request: Request, found: Sequence[Found]) -> tuple[list[Change], list[Change]]:
    """Return the changes to apply, and the changes that are deferred until a run is allowed to replace nodes.

    Raises ClusterError for harmful changes, and ForbiddenChange for impossible ones.
    """
    wanted = [item for component in run.components for item in component.wanted(request, found)]
    keeps = _keeper(run, found)
    plan = make_plan(wanted, found, KINDS, keep=keeps)
    predicted = found
    for component in run.components:
        predicted = component.predict(request, plan, predicted)
    plan = make_plan(wanted, predicted, KINDS, keep=keeps)
    _refuse_missing(run, wanted, found)
    for component in run.components:
        component.refuse(request, plan, found)
    if not run.manages_nodes or capacity.may_replace_nodes(request, found):
        return plan, []
    return split_replacing(plan, KINDS)


def plan_deletion(run: Run, found: Sequence[Found]) -> list[Change]:
    """Return the changes that delete the resources that the module manages. Raises ClusterError for harmful changes."""
    plan = make_plan([], found, KINDS, keep=_keeper(run, found))
    _refuse_used(run, plan, found)
    for component in run.components:
        component.refuse(run.request, plan, found)
    return plan


def plan_end_of_nodes(found: Sequence[Found]) -> list[Change]:
    wanted = [Wanted(item.address, {"minimum": 0, "size": 0}) for item in found if item.address.kind == "auto_scaling_group"]
    return make_plan(wanted, found, KINDS, keep=lambda _item: True)


def predict(plan: Iterable[Change], found: Iterable[Found]) -> list[Found]:
    """Return the resources that exist after a plan is applied. New resources have no IDs yet."""
    items = {item.address: item for item in found}
    for change in plan:
        if change.action is Action.DELETE:
            del items[change.address]
        elif change.action is Action.CREATE:
            items[change.address] = Found(change.address, KNOWN_AFTER_APPLY, change.after)
        else:
            item = items[change.address]
            items[change.address] = replace(item, properties={**item.properties, **change.after})
    return list(items.values())


def _keeper(run: Run, found: Sequence[Found]) -> Callable[[Found], bool]:
    """Return a function that decides whether to keep a resource that is not part of the desired state.

    If a file system is kept, its subnets and security groups are kept too.
    """
    data = [item for item in found if item.address.kind in DATA_KINDS and _keeps(run, item)]
    held = _ids_referred_to(data, found)
    return lambda item: item.id in held or _keeps(run, item)


def _keeps(run: Run, item: Found) -> bool:
    component = COMPONENT_OF_KIND[item.address.kind]
    return component not in run.components or component.keeps(run.request, item)


def _refuse_missing(run: Run, wanted: Sequence[Wanted], found: Sequence[Found]) -> None:
    """Raise ClusterError if resources refer to resources that do not exist.

    In check mode, raise no error, because the runs that create these resources only predict them.
    """
    known = {item.address for item in wanted} | {item.address for item in found}
    missing = sorted({address for item in wanted for address in references(item.properties) if address not in known})
    if missing and not run.module.check_mode:
        components = sorted({COMPONENT_OF_KIND[address.kind].name for address in missing})
        raise ClusterError(
            f"Cluster {run.request.cloud.cluster}: these resources do not exist yet: {', '.join(map(str, missing))}. "
            f"Create these components first, or together with the others: {', '.join(components)}."
        )


def _refuse_used(run: Run, plan: Sequence[Change], found: Sequence[Found]) -> None:
    """Raise ClusterError if the plan deletes resources that other components still use."""
    managed = {kind.name for component in run.components for kind in component.kinds}
    users = {
        str(item.address)
        for change in plan
        for item in found
        if item.address.kind in users_of(change.address.kind, KINDS) - managed and not item.adopted
    }
    if users:
        raise ClusterError(
            f"Cluster {run.request.cloud.cluster}: cannot delete resources that are still in use. First delete {', '.join(sorted(users))}."
        )


def _ids_referred_to(items: Iterable[Found], found: Sequence[Found]) -> set[str]:
    """Return the IDs of all resources that the properties of `items` refer to, directly or indirectly."""
    known = {item.id: item for item in found}
    result: set[str] = set()
    waiting = list(items)
    while waiting:
        properties = {name: value for name, value in waiting.pop().properties.items() if name != "tags"}
        more = {text for text in _texts(properties) if text in known} - result
        result |= more
        waiting += [known[id_] for id_ in more]
    return result


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, Iterable):
        for item in value:
            yield from _texts(item)
