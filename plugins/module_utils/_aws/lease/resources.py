# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, creates, changes, prolongs and deletes the lease of a cluster's nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from ..client import AwsClient
from ..instance_role.own_role import ADVICE, OwnRole
from ..node_names import NODE_TYPES
from ..plan.errors import half_deleted
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties
from ..schedules.schedules import delete_group, delete_schedules, ensure_group, get_schedule, put_schedule
from . import definition, messages
from .definition import LATE, LEASE, REPEATED, Terms, end_of, iso, role_name, schedule_group

ROLE = OwnRole(LEASE, "lease", "Ends the lease of the training cluster")


def read(cloud: AwsClient) -> Iterator[Found]:
    """Yield the lease if it exists. Its role is created first and deleted last."""
    for role in ROLE.read(cloud, role_name(cloud.cluster, cloud.region)):
        yield _complete(cloud, role, [*NODE_TYPES, *(messages.BEFORE if messages.topic_in(role.properties["policy"]) else ())])


def read_without_role(cloud: AwsClient) -> Iterator[Found]:
    """Yield the lease if at least one of its schedules exists although its role has been deleted."""
    name = role_name(cloud.cluster, cloud.region)
    trust = definition.trust_policy(cloud.region, schedule_group(cloud.cluster))
    found = _complete(cloud, ROLE.deleted(name, trust), [*NODE_TYPES, *messages.BEFORE])
    if any(call["role"] == name for call in found.properties["calls"].values()):
        yield found


def _complete(cloud: AwsClient, role: Found, names: Sequence[str]) -> Found:
    with ThreadPoolExecutor(len(names)) as pool:
        known = {name: found for name, found in zip(names, pool.map(partial(_schedule, cloud), names)) if found}
    terms = {found.get("Description", "") for found in known.values()}
    about = definition.TERMS.search(terms.pop()) if len(terms) == 1 else None
    properties = {
        **role.properties,
        "lease": about and about[1],
        "ends": {group: iso(known[group]["StartDate"]) if "StartDate" in known.get(group, {}) else None for group in NODE_TYPES},
        "calls": {name: definition.found_call(found) for name, found in known.items()},
    }
    return replace(role, properties=properties)


def _schedule(cloud: AwsClient, name: str) -> dict[str, Any] | None:
    """Return a schedule. Return None if it does not exist, or if it is that of a message whose time has passed."""
    found = get_schedule(cloud, schedule_group(cloud.cluster), name)
    return None if found is None or messages.is_over(name, found["ScheduleExpression"], cloud.now) else found


def prolong(cloud: AwsClient, found: Found, terms: Terms, end: datetime, *, writes: bool) -> Found:
    """Let an existing lease end later, or only predict this. Return the changed lease."""
    topic, former = messages.topic_in(found.properties["policy"]), end_of(found)
    calls = definition.calls(cloud.cluster, cloud.region, terms, end, cloud.now, topic)
    properties = {**found.properties, "calls": calls, "ends": {group: iso(end) for group in NODE_TYPES}}
    if writes:
        _put_schedules(cloud, found, properties)
    return replace(found, properties=properties, attributes={**found.attributes, "former_end": former and iso(former)})


def is_complete(found: Found) -> bool:
    """Return whether AWS can delete the groups at the end: the role has permissions, and each group has a schedule that is on."""
    calls, properties = found.properties["calls"], found.properties
    are_on = all(properties["ends"][group] and calls[group]["state"] == "ENABLED" for group in NODE_TYPES)
    return bool(are_on and properties["policy"] and "arn" in found.attributes)


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    role = ROLE.create(cloud, address, properties)
    _put_schedules(cloud, role, properties)
    return role


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    # Without the permission for messages, no run looks for their schedules, so they are deleted first
    delete_schedules(cloud, schedule_group(cloud.cluster), found.properties["calls"].keys() - properties["calls"].keys())
    role = ROLE.ensure(cloud, found, properties, changed)
    if role is not found or changed & {"lease", "ends", "calls"}:
        _put_schedules(cloud, role, properties)
        _wait_for_last_calls(cloud, found)


def _wait_for_last_calls(cloud: AwsClient, former: Found) -> None:
    """If the former lease has ended, wait until AWS makes no more calls for it, so that it does not terminate new nodes."""
    end = end_of(former)
    if end and end <= cloud.now < end + REPEATED + LATE:
        cloud.progress("waiting until AWS no longer terminates nodes because of the former lease")
        cloud.pause(LATE.total_seconds())


def _put_schedules(cloud: AwsClient, role: Found, properties: Properties) -> None:
    ensure_group(cloud, schedule_group(cloud.cluster), properties["tags"])
    for name, call in properties["calls"].items():
        if messages.is_over(name, call["expression"], cloud.now):
            continue  # the run has taken long until here
        start = datetime.fromisoformat(properties["ends"][name]) if name in NODE_TYPES else None
        schedule = definition.schedule(cloud.cluster, properties["lease"], start, call, role.attributes["arn"])
        put_schedule(cloud, "lease", {"GroupName": schedule_group(cloud.cluster), "Name": name, **schedule})


def _delete(cloud: AwsClient, found: Found) -> None:
    # Of all calls, those for roles are denied most often. If the first one is, the lease still ends the nodes
    ROLE.delete_policies(cloud, found)
    with half_deleted():
        delete_group(cloud, schedule_group(cloud.cluster), {*NODE_TYPES, *found.properties["calls"]})
        ROLE.delete(cloud, found)
    if cloud.module.params.get("state") != "absent":
        _wait_for_last_calls(cloud, found)


KIND = Kind(
    LEASE.kind,
    _create,
    _delete,
    update=_update,
    updatable=frozenset({"calls", "ends", "lease", "permissions_boundary", "policy", "tags"}),
    deleted_after=("auto_scaling_group",),
    deleted_first=True,
    advice=ADVICE,
)
