# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for the lease of a cluster's nodes, which the module `cluster` provisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from .. import node_ends
from ..client import AwsClient
from ..component import Component, Request
from ..message_parts import P
from ..plan.planning import Change
from ..plan.resources import Found, Wanted
from ..schedules.iam_actions import IAM_ACTIONS
from ..tags import LEASE_COMPONENT, NODES_COMPONENT
from . import definition, resources
from .definition import LEASE, Terms, end_of, iso


def _read(request: Request, nodes: Sequence[Found]) -> list[Found]:
    return node_ends.read(request, nodes, LEASE_COMPONENT, resources.read, resources.read_without_role)


def _wanted(request: Request, found: Sequence[Found]) -> Iterator[Wanted]:
    options, cloud, existing = request.options, request.cloud, lease_in(found)
    if not options["lease"] or (existing and has_ended(request, existing)):
        return
    terms = definition.parse(options["lease"])
    end = end_of(existing) if existing and _is_same(existing, terms) else None
    if end and end <= cloud.now:
        end = None  # the run gives the lease anew
    end = end or terms.end(cloud.now, _least(options))
    tags, boundary, topic = request.tags(LEASE_COMPONENT), options["permissions_boundary"], options["notify_topic"]
    yield definition.wanted(terms, end, cloud.now, cloud.cluster, cloud.region, tags, boundary, topic)


def _least(options: Mapping[str, Any]) -> timedelta:
    """Return for how long the lease must last after this run, which is at most as long as a lease can be."""
    return timedelta(seconds=min(options.get("lease_minimum") or 0, definition.MOST.total_seconds()))


def _keeps(request: Request, _item: Found) -> bool:
    """Return whether the lease stays: after its end, it is the evidence of the end."""
    return request.present and bool(request.options["lease"])


def lease_in(found: Sequence[Found]) -> Found | None:
    return next((item for item in found if item.address == LEASE), None)


def has_ended(request: Request, existing: Found) -> bool:
    """Return whether the lease has ended, and neither a later fixed end in the definition nor an option of the run gives it anew.

    Another duration does not: runs for definitions with different durations would start each other's nodes again.
    """
    lease, end, now = request.options["lease"], end_of(existing), request.cloud.now
    fixed_end = definition.parse(lease).fixed_end if lease else None
    is_new = request.options["start_again"] or (fixed_end and fixed_end > now)
    return bool(end and end <= now and not is_new)


def _is_same(existing: Found, terms: Terms) -> bool:
    return bool(existing.properties["lease"] == str(terms))


def _refuse(request: Request, plan: Sequence[Change], found: Sequence[Found]) -> None:
    """Refuse to launch nodes after the end of the lease, also if the definition, such as that of a colleague, no longer has one."""
    existing = lease_in(found)
    if not request.present or existing is None or not has_ended(request, existing):
        return
    if any(map(node_ends.launches, plan)):
        end, lease = end_of(existing), request.options["lease"]
        is_fixed = lease and definition.parse(lease).fixed_end
        anew = "change deeplearning_lease to a later time." if is_fixed else "add -e deeplearning_start_again=true"
        raise node_ends.NodesEnded(
            f"{P}lease: the lease of cluster {request.cloud.cluster} ended at {end:%Y-%m-%d %H:%M} UTC, and AWS terminated the nodes. To "
            f"start nodes {'with a new' if lease else 'without a'} lease, {anew}"
        )


def prolong(cloud: AwsClient, lease: str, existing: Found, least: timedelta, *, writes: bool) -> Found:
    """Prolong a lease with a duration if less than half of it or less than `least` is left, or only predict this. Return the lease.

    A lease that has ended, that differs from the definition or whose role has been deleted is not prolonged.
    """
    terms, end, now = definition.parse(lease), end_of(existing), cloud.now
    if not terms.duration or not _is_same(existing, terms) or end is None or "arn" not in existing.attributes:
        return existing
    if end <= now or end - now >= max(terms.duration / 2, least):
        return existing
    return resources.prolong(cloud, existing, terms, terms.end(now, least), writes=writes)


def prolonged(request: Request, found: Sequence[Found], *, writes: bool) -> list[Found]:
    """Prolong the cluster's lease if a run for this definition may, or only predict this. Return the resources of the cluster."""
    options, least = request.options, _least(request.options)
    if not options.get("lease"):
        return list(found)
    return [prolong(request.cloud, options["lease"], item, least, writes=writes) if item.address == LEASE else item for item in found]


def describe(request: Request, found: Sequence[Found]) -> dict[str, Any] | None:
    """Return when the lease ends, and the seconds until then. Return None without a lease."""
    existing = lease_in(found)
    end = end_of(existing) if existing and existing.properties else None
    if existing is None or end is None or request.options.get("state") == "absent":
        return None
    left = (end - request.cloud.now).total_seconds()
    former, terms = existing.attributes.get("former_end"), existing.properties["lease"]
    lasts = definition.duration_of(terms)
    return {"end": iso(end), "seconds": left, "former_end": former, "fixed": terms == iso(end), "longer": bool(lasts and left > lasts + 60)}


NODES_LEASE = Component(
    LEASE_COMPONENT, (resources.KIND,), IAM_ACTIONS, _read, _wanted, _keeps, refuse=_refuse, reads_after=(NODES_COMPONENT,)
)
