# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a run removes of that which ends the nodes, such as because a colleague's definition lacks the options, and what is incomplete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..component import Request
from ..idle import component as idle
from ..idle import resources as idle_resources
from ..idle.definition import IDLE, TERMINATE
from ..lease import component as lease
from ..lease import resources as lease_resources
from ..lease.definition import LEASE, end_of
from ..plan.planning import Action, Change
from ..plan.resources import Address, Found
from ..tags import END_TAGS, IDLE_COMPONENT, LEASE_COMPONENT
from .context import Run

ADDRESSES = {LEASE_COMPONENT: LEASE, IDLE_COMPONENT: IDLE}


def incomplete_ends(request: Request, found: Sequence[Found]) -> list[str]:
    """Return the options of what should end the nodes and cannot, because parts of it are missing, or all of it.

    A tag of the groups says that there should be such a thing. What this run may not read, and what has ended the nodes, does not count.
    """
    tags = {tag for item in found if item.address.kind == "auto_scaling_group" for tag in item.properties["tags"]}
    known = {item.address: item for item in found}
    return [
        option
        for option, address in ADDRESSES.items()
        if option not in request.unread
        and (_is_incomplete(request, known[address], found) if address in known else END_TAGS[option] in tags)
    ]


def _is_incomplete(request: Request, item: Found, found: Sequence[Found]) -> bool:
    if item.address == LEASE:
        end = end_of(item)
        return not (lease_resources.is_complete(item) or (end and end <= request.cloud.now))
    return not (idle_resources.is_complete(item) or idle.has_ended(found))


def remaining_ends(run: Run, changes: Sequence[Change]) -> list[Found]:
    """Return what ended the nodes before these changes, and still does so, as the changes have left it."""
    ends = [item for item in run.before if item.address in ADDRESSES.values() and item.address not in _deleted(changes)]
    after = {change.address: change.after for change in changes if change.action is Action.UPDATE}
    complete = [item for item in ends if not _is_incomplete(run.request, item, run.before)]
    return [replace(item, properties={**item.properties, **after.get(item.address, {})}) for item in complete]


def removed_ends(run: Run, changes: Sequence[Change], *, done: bool = False) -> dict[str, Any]:
    """Return the lease, the end of idle nodes and the topic that changes remove, and whether nothing else ends the nodes.

    Return an empty dictionary if they remove nothing. What has already ended the nodes does not count. `done` says whether the changes have
    been made.
    """
    request = run.request
    if not request.present:
        return {}
    rests = _rests(run, changes)
    whole = [item for address, item in _deleted(changes).items() if address not in [ADDRESSES[option] for option in rests]]
    former = lease.describe(request, whole)
    found = {
        "lease": former if former and former["seconds"] > 0 else None,
        "idle": None if idle.has_ended(run.before) else idle.describe(request, whole),
        "topic": _removed_topic(changes),
        "rests": rests,
    }
    if not any(found.values()):
        return {}
    return {**found, "endless": _is_endless(found, request.options), "done": done and not run.module.check_mode}


def _deleted(changes: Sequence[Change]) -> dict[Address, Found]:
    return {change.address: change.found for change in changes if change.action is Action.DELETE and change.found}


def _rests(run: Run, changes: Sequence[Change]) -> list[str]:
    """Return the options of those ends of which changes delete only the rest, or nothing but the tags of the groups."""
    known = _deleted(changes)
    return [
        option
        for option, address in ADDRESSES.items()
        if (_is_incomplete(run.request, known[address], run.before) if address in known else _untags(changes, END_TAGS[option]))
    ]


def _untags(changes: Sequence[Change], tag: str) -> bool:
    return any(tag in change.before.get("tags", ()) and tag not in change.after["tags"] for change in changes if "tags" in change.after)


def _is_endless(removed: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Return whether something that ends the nodes is removed, and nothing else ends them. Notifications about idle nodes do not."""
    ended = removed["lease"] or removed["rests"] or (removed["idle"] and removed["idle"]["then"] == TERMINATE)
    ends = options.get("lease") or (options.get("idle_after") and options["idle_then"] == TERMINATE)
    return bool(ended and not ends)


def _removed_topic(changes: Sequence[Change]) -> str | None:
    """Return the topic of the Auto Scaling groups, if the changes remove it."""
    updated = [change for change in changes if change.after.get("notifications") == {}]
    return next((topic for change in updated for topic in change.before.get("notifications", ())), None)
