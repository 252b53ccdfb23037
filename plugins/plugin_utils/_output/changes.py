# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes the changes that a provisioning module reports, by resource name. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils._text import clean_line
from ...module_utils._words import form, plural
from .kinds import kind_name
from .prices import difference

# One of the `changes` in a result: `kind`, `key`, `action` and the properties `before` and `after`.
PlannedChange = Mapping[str, Any]

CREATE, UPDATE, DELETE = "create", "update", "delete"
SIGNS = {CREATE: "+", UPDATE: "~", DELETE: "-"}
DONE = {CREATE: "Created", UPDATE: "Changed", DELETE: "Deleted"}

KNOWN_AFTER_APPLY = "(known after apply)"
NOTHING = "none"
# These properties repeat the name of the resource, are the same for every cluster, or are meant only for machines.
UNINTERESTING = {"name", "tags", "launched_tags", "description", "policy", "user_data"}
UNINTERESTING |= {"state", "interfaces", "root_device", "suspended", "health_check_grace_period", "protected_from_scale_in"}
RULES = ("ingress", "egress")
# These properties list, by number, the nodes that a change replaces.
REPLACED = ("outdated", "unhealthy")
# This property lists the numbers of the nodes of a group.
NUMBERS = "numbers"
VALUE_LIMIT = 60


def changes_of(result: Mapping[str, Any]) -> list[PlannedChange] | None:
    """Return the changes reported in a result, or None if the result does not come from a provisioning module."""
    changes = result.get("changes")
    if not isinstance(changes, list):
        return None
    is_ours = all(isinstance(change, Mapping) and change.get("action") in SIGNS and {"kind", "key"} <= change.keys() for change in changes)
    return list(changes) if is_ours else None


def done_lines(changes: Sequence[PlannedChange], seconds: float, *, names: bool = True) -> list[str]:
    """Return one line each for created, changed and deleted resources. If `names` is true, each line also lists the resources."""
    lines = []
    for action, verb in DONE.items():
        chosen = [change for change in changes if change["action"] == action]
        what = f"{verb} {_resources(len(chosen))} in {seconds:.0f} s"
        named = "; ".join(_description(change, True) for change in chosen) if action == UPDATE else _names(chosen)
        lines += [f"{what}: {named}" if names else what] if chosen else []
    return lines


def totals(changes: Iterable[PlannedChange]) -> list[str]:
    """Return how many resources were created, changed and deleted, as text, such as `created 23 resources`."""
    actions = [change["action"] for change in changes]
    return [f"{verb.lower()} {_resources(actions.count(action))}" for action, verb in DONE.items() if action in actions]


def plan_lines(changes: Iterable[PlannedChange], *, properties: bool, currency: str = "") -> list[tuple[str, str]]:
    """Return a line for each change, with its action. If `properties` is true, include the properties of new resources.

    `currency` is the currency of the prices of changes, or an empty string if they have no prices.
    """
    return [
        (change["action"], f"{SIGNS[change['action']]} {_description(change, properties)}{_price(change, currency)}") for change in changes
    ]


def replaces_nodes(change: PlannedChange) -> bool:
    before, after = change.get("before") or {}, change.get("after") or {}
    return any(before.get(name) for name in REPLACED if name in after)


def _price(change: PlannedChange, currency: str) -> str:
    hourly = change.get("hourly", 0.0)
    told = "" if not currency else "price not known" if hourly is None else difference(hourly, currency)
    return f" ({told})" if told else ""


def counts(changes: Sequence[PlannedChange]) -> str:
    """Return how many resources a plan creates, changes and deletes, such as `27 to create, 2 to change, 0 to delete`.

    If a change terminates nodes, the number of nodes is added.
    """
    actions = [change["action"] for change in changes]
    told = ", ".join(f"{actions.count(action)} to {word}" for action, word in ((CREATE, "create"), (UPDATE, "change"), (DELETE, "delete")))
    nodes = sum(len(_terminated(change)) for change in changes)
    return f"{told}, {plural(nodes, 'node', 'nodes')} to terminate" if nodes else told


def _resources(count: int) -> str:
    return plural(count, "resource", "resources")


def _names(changes: Iterable[PlannedChange]) -> str:
    """Return the resources, grouped by kind, such as `VPC main; subnets private-us-east-1a, public-us-east-1a`."""
    keys: dict[str, list[str]] = {}
    for change in changes:
        keys.setdefault(str(change["kind"]), []).append(str(change["key"]))
    return clean_line("; ".join(f"{kind_name(kind, len(names))} {', '.join(names)}" for kind, names in keys.items()))


def _description(change: PlannedChange, properties: bool) -> str:
    parts: list[str] = []
    if change["action"] == UPDATE:
        parts = _update(change)
    elif change["action"] == CREATE and properties:
        parts = _properties(change.get("after") or {})
    what = f"{kind_name(str(change['kind']))} {change['key']}"
    return clean_line(f"{what}: {', '.join(parts)}" if parts else what)


def _update(change: PlannedChange) -> list[str]:
    before, after = change.get("before") or {}, change.get("after") or {}
    parts = [part for name in after for part in _difference(name, before.get(name), after[name])]
    gone = _terminated(change)
    return [*parts, f"terminates {_nodes(gone)}"] if gone else parts


def _properties(after: Mapping[str, Any]) -> list[str]:
    told = {name: _rules(value) if name in RULES and value else value for name, value in after.items() if name not in UNINTERESTING}
    return [f"{name} {_value(value)}" for name, value in told.items() if _tells(value)]


def _difference(name: str, before: Any, after: Any) -> list[str]:
    """Return how a property changes. For a dictionary, return how each key changes.

    For rules, return which rules are added and which are removed.
    """
    if name in RULES:
        return _rule_difference(name, _rules(before), _rules(after))
    if name in REPLACED:
        return [f"replacement of {name} {_nodes(before)}"] if before else []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
        return [part for key in keys for part in _difference(f"{name}.{key}", before.get(key), after.get(key))]
    old, new = _value(before), _value(after)
    if max(len(old), len(new)) > VALUE_LIMIT or old == new:
        return [f"{name} changes"]
    return [f"{name} {old} -> {new}"]


def _rule_difference(name: str, before: Sequence[str], after: Sequence[str]) -> list[str]:
    added = [f"{name} + {rule}" for rule in after if rule not in before]
    return added + [f"{name} - {rule}" for rule in before if rule not in after]


def _terminated(change: PlannedChange) -> list[Any]:
    """Return the numbers of the nodes that a change terminates without a replacement."""
    before, after = ((change.get(side) or {}).get(NUMBERS) for side in ("before", "after"))
    return [number for number in before if number not in after] if isinstance(before, list) and isinstance(after, list) else []


def _nodes(numbers: Sequence[Any]) -> str:
    return f"{form(len(numbers), 'node', 'nodes')} {_value(numbers)}"


def _tells(value: Any) -> bool:
    """Return whether to show a property of a new resource: only numbers, enabled switches and short texts are shown."""
    text = _value(value)
    return bool(value) and not isinstance(value, Mapping) and KNOWN_AFTER_APPLY not in text and len(text) <= VALUE_LIMIT


def _rules(rules: Iterable[Sequence[Any]] | None) -> list[str]:
    """Return the rules of a security group as text, such as `tcp 22 127.0.0.0/8`. A rule has a protocol, first port, last port and peer."""
    texts = []
    for protocol, first, last, peer in rules or ():
        port = f" {first}" if first == last else f" {first}-{last}"
        texts.append(f"all {peer}" if protocol == "-1" else f"{protocol}{port} {peer}")
    return texts


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, (list, tuple)):
        return " and ".join(map(_value, value))
    return str(value)
