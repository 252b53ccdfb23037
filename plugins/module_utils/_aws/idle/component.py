# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for the end of a cluster's idle nodes, which the module `cluster` provisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Mapping

from .. import node_ends
from ..component import Component, Request
from ..message_parts import P
from ..plan.planning import Change
from ..plan.resources import Found, Wanted
from ..tags import IDLE_COMPONENT, NODES_COMPONENT
from . import definition, function, resources
from .definition import IDLE, TERMINATE, name_of
from .iam_actions import IAM_ACTIONS


def _read(request: Request, nodes: Sequence[Found]) -> list[Found]:
    return node_ends.read(request, nodes, IDLE_COMPONENT, resources.read, resources.read_without_role)


def _wanted(request: Request, found: Sequence[Found]) -> Iterator[Wanted]:
    options, cloud, existing = request.options, request.cloud, idle_in(found)
    if not options["idle_after"]:
        return
    after, then = definition.parse(options["idle_after"]), options["idle_then"]
    # The function sets and removes this time. A run removes it only to launch the nodes again, and if it no longer tells the truth
    is_over = existing is None or (options["start_again"] and has_ended(found)) or _environment(existing).get("THEN") != then
    since = "" if existing is None or is_over else existing.properties["since"]
    yield definition.wanted(
        after,
        then,
        cloud.cluster,
        cloud.region,
        request.tags(IDLE_COMPONENT),
        topic=options["notify_topic"],
        permissions_boundary=options["permissions_boundary"],
        since=since,
    )


def idle_in(found: Sequence[Found]) -> Found | None:
    return next((item for item in found if item.address == IDLE), None)


def has_ended(found: Sequence[Found]) -> bool:
    """Return whether AWS has terminated the nodes because they were idle, and no run has launched them again."""
    existing = idle_in(found)
    if existing is None or not existing.properties["since"] or any(item.address.kind == "auto_scaling_group" for item in found):
        return False
    return bool(_environment(existing).get("THEN") == TERMINATE)


def _environment(existing: Found) -> Mapping[str, str]:
    settings: Mapping[str, Any] = existing.properties["function"] or {}
    return dict(settings.get("environment", {}))


def _refuse(request: Request, plan: Sequence[Change], found: Sequence[Found]) -> None:
    """Refuse to launch nodes that AWS has terminated because they were idle, also if the definition no longer has the option."""
    existing = idle_in(found)
    if not request.present or request.options["start_again"] or existing is None:
        return
    if has_ended(found) and any(map(node_ends.launches, plan)):
        since = function.time_of(existing.properties["since"])
        raise node_ends.NodesEnded(
            f"{P}idle_after: AWS terminated the nodes of cluster {request.cloud.cluster}, because they had been idle since "
            f"{since:%Y-%m-%d %H:%M} UTC. To start nodes again, add -e deeplearning_start_again=true"
        )


def describe(request: Request, found: Sequence[Found]) -> dict[str, Any] | None:
    """Return what AWS does with idle nodes, and what it has found. Return None if it does not look for idle nodes."""
    existing = idle_in(found)
    if existing is None or not existing.properties or request.options.get("state") == "absent":
        return None
    environment, verdict, failure = _environment(existing), existing.attributes.get("verdict"), existing.attributes.get("failure")
    nodes = {node for item in found if item.address.kind == "auto_scaling_group" for node in item.attributes.get("instances", ())}
    return {
        "seconds": int(environment.get("IDLE_SECONDS") or 0),
        "then": environment.get("THEN"),
        "since": _shown(existing.properties["since"]),
        "warned": _shown(existing.attributes.get("warned", "")),
        "function": name_of(request.cloud.cluster),
        "concurrency": existing.attributes.get("concurrency"),
        "failure": failure and {"time": function.iso(failure[0]), "error": failure[1]},
        "region": request.cloud.region,
        "holds": existing.attributes.get("holds", {}),
        "verdict": verdict
        and {
            # What kept the others tells nothing about them if it has gone since
            "state": verdict.state if not verdict.instance_id or verdict.instance_id in nodes else function.NO_NODES,
            "node": verdict.node,
            "instance_id": verdict.instance_id,
            "since": function.iso(verdict.since),
            "written": function.iso(verdict.written),
            "age": (request.cloud.now - verdict.written).total_seconds(),
        },
    }


def _shown(tag: str) -> str | None:
    """Return the time in a tag, which others can set."""
    return function.iso(function.time_of(tag)) if tag else None


NODES_IDLE = Component(IDLE_COMPONENT, (resources.KIND,), IAM_ACTIONS, _read, _wanted, refuse=_refuse, reads_after=(NODES_COMPONENT,))
