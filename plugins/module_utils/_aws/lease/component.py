# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for the lease of a cluster's nodes, which the module `cluster` provisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from ..client import DENIED, AwsClient, ClientError, ClusterError, error_code
from ..component import Component, Request
from ..plan.planning import Action, Change
from ..plan.resources import Found, Wanted
from ..tags import LEASE_COMPONENT, LEASE_TAG, NODES_COMPONENT
from . import definition, resources
from .definition import LEASE, Terms, end_of, iso
from .iam_actions import IAM_ACTIONS


class LeaseEnded(ClusterError):
    """The run would launch nodes after the end of their lease."""


def _read(request: Request, nodes: Sequence[Found]) -> list[Found]:
    """Return the lease. Without a lease in the definition, make no request if the groups have no tag that says that there is one.

    If there are no groups, a lease may have ended.
    """
    groups = [item for item in nodes if item.address.kind == "auto_scaling_group"]
    tagged = any(LEASE_TAG in item.properties["tags"] for item in groups)
    defined = request.present and request.options.get("lease")
    if not _may_exist(request, bool(groups) and not tagged):
        return []
    try:
        return list(resources.read(request.cloud))
    except ClientError as error:
        # Without permissions for leases, a run can change clusters that have none. A role that can be read is that of a lease
        if defined or tagged or error.operation_name != "GetRole" or error_code(error) not in DENIED:
            raise
        return []


def _may_exist(request: Request, has_none: bool) -> bool:
    """Return whether the run manages a lease that may exist. `has_none` says that there are groups, and that none has a lease."""
    if "state" in request.options and not request.manages(LEASE_COMPONENT):
        return False
    return not has_none or bool(request.options.get("lease")) or request.options.get("state") == "absent"


def _wanted(request: Request, found: Sequence[Found]) -> Iterator[Wanted]:
    options, cloud, existing = request.options, request.cloud, lease_in(found)
    if not options["lease"] or (existing and has_ended(request, existing)):
        return
    terms = definition.parse(options["lease"])
    end = end_of(existing) if existing and _is_same(existing, terms) else None
    if end and end <= cloud.now:
        end = None  # the run gives the lease anew
    end = end or terms.end(cloud.now, timedelta(seconds=options["lease_minimum"]))
    tags, boundary, topic = request.tags(LEASE_COMPONENT), options["permissions_boundary"], options["notify_topic"]
    yield definition.wanted(terms, end, cloud.now, cloud.cluster, cloud.region, tags, boundary, topic)


def _keeps(request: Request, _item: Found) -> bool:
    """Return whether the lease stays: after its end, it is the evidence of the end."""
    return request.present and bool(request.options["lease"])


def lease_in(found: Sequence[Found]) -> Found | None:
    return next((item for item in found if item.address == LEASE), None)


def has_ended(request: Request, existing: Found) -> bool:
    """Return whether the lease has ended, and neither the definition nor an option of the run gives it anew."""
    terms, end = definition.parse(request.options["lease"]), end_of(existing)
    return bool(end and end <= request.cloud.now and _is_same(existing, terms) and not request.options["renew_lease"])


def _is_same(existing: Found, terms: Terms) -> bool:
    return bool(existing.properties["lease"] == str(terms))


def _refuse(request: Request, plan: Sequence[Change], found: Sequence[Found]) -> None:
    """Refuse to launch nodes after the end of the lease."""
    existing = lease_in(found)
    if not request.present or not request.options["lease"] or existing is None or not has_ended(request, existing):
        return
    if any(map(_launches, plan)):
        end, is_fixed = end_of(existing), definition.parse(request.options["lease"]).fixed_end
        anew = "change deeplearning_lease to a later time" if is_fixed else "add -e deeplearning_renew_lease=true"
        raise LeaseEnded(
            f"lease: the lease of cluster {request.cloud.cluster} ended at {end:%Y-%m-%d %H:%M} UTC, and AWS terminated the nodes. To "
            f"start nodes with a new lease, {anew}."
        )


def _launches(change: Change) -> bool:
    """Return whether a change creates or enlarges a group. Until AWS has deleted the groups, they still exist."""
    grows = change.after.get("size", 0) > change.before.get("size", 0)
    return change.address.kind == "auto_scaling_group" and (change.action is Action.CREATE or grows)


def prolong(cloud: AwsClient, lease: str, existing: Found, least: timedelta) -> Found:
    """Prolong a lease with a duration if less than half of it or less than `least` is left. Return the lease.

    A lease that has ended or that differs from the definition is not prolonged.
    """
    terms, end, now = definition.parse(lease), end_of(existing), cloud.now
    if not terms.duration or not _is_same(existing, terms) or end is None:
        return existing
    if end <= now or end - now >= max(terms.duration / 2, least):
        return existing
    return resources.prolong(cloud, existing, terms, terms.end(now, least))


def prolonged(request: Request, found: Sequence[Found]) -> list[Found]:
    """Prolong the cluster's lease if a run for this definition may, and return the resources of the cluster."""
    options, least = request.options, timedelta(seconds=request.options.get("lease_minimum") or 0)
    if not options.get("lease"):
        return list(found)
    return [prolong(request.cloud, options["lease"], item, least) if item.address == LEASE else item for item in found]


def describe(request: Request, found: Sequence[Found]) -> dict[str, Any] | None:
    """Return when the lease ends, and the seconds until then. Return None without a lease, or if the lease is only predicted."""
    existing = lease_in(found)
    end = end_of(existing) if existing and existing.properties else None
    if existing is None or end is None or request.options.get("state") == "absent":
        return None
    left = (end - request.cloud.now).total_seconds()
    prolonged, is_fixed = existing.attributes.get("prolonged", False), existing.properties["lease"] == iso(end)
    return {"end": iso(end), "seconds": left, "prolonged": prolonged, "fixed": is_fixed}


NODES_LEASE = Component(
    LEASE_COMPONENT, (resources.KIND,), IAM_ACTIONS, _read, _wanted, _keeps, refuse=_refuse, reads_after=(NODES_COMPONENT,)
)
