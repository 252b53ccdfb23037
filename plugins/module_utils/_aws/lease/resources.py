# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, creates, changes, prolongs and deletes the lease of a cluster's nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from ..client import AwsClient, ClientError, WaitTimeout, error_code, is_missing, tag_list
from ..instance_role.own_role import ADVICE, OwnRole
from ..instances import NODE_TYPES
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties
from . import definition, messages
from .definition import LATE, LEASE, REPEATED, Terms, end_of, iso, role_name, schedule_group

# Seconds until EventBridge Scheduler can use a new role, and until AWS has deleted a former schedule group of the same name.
ROLE_TIMEOUT, GROUP_TIMEOUT = 120, 600
ROLE = OwnRole(LEASE, "lease", "Ends the lease of the training cluster")


def read(cloud: AwsClient) -> Iterator[Found]:
    """Yield the lease if it exists. Its role is created first and deleted last."""
    for role in ROLE.read(cloud, role_name(cloud.cluster, cloud.region)):
        names = [*NODE_TYPES, *(messages.BEFORE if messages.topic_in(role.properties["policy"]) else ())]
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
        yield replace(role, properties=properties)


def _schedule(cloud: AwsClient, name: str) -> dict[str, Any] | None:
    """Return a schedule. Return None if it does not exist, or if it is that of a message whose time has passed."""
    try:
        found = cloud.scheduler.get_schedule(GroupName=schedule_group(cloud.cluster), Name=name)
    except ClientError as error:
        if is_missing(error):
            return None
        raise
    return None if messages.is_over(name, found["ScheduleExpression"], cloud.now) else dict(found)


def prolong(cloud: AwsClient, found: Found, terms: Terms, end: datetime) -> Found:
    """Let an existing lease end later. Return the changed lease."""
    topic = messages.topic_in(found.properties["policy"])
    calls = definition.calls(cloud.cluster, cloud.region, terms, end, cloud.now, topic)
    properties = {**found.properties, "calls": calls, "ends": {group: iso(end) for group in NODE_TYPES}}
    _put_schedules(cloud, found, properties)
    return replace(found, properties=properties, attributes={**found.attributes, "prolonged": True})


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    role = ROLE.create(cloud, address, properties)
    _put_schedules(cloud, role, properties)
    return role


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    # Without the permission for messages, no run looks for their schedules, so they are deleted first
    _delete_schedules(cloud, found.properties["calls"].keys() - properties["calls"].keys())
    ROLE.update(cloud, found, properties, changed)
    if changed & {"lease", "ends", "calls"}:
        _put_schedules(cloud, found, properties)
        _wait_for_last_calls(cloud, found)


def _wait_for_last_calls(cloud: AwsClient, former: Found) -> None:
    """If the former lease has ended, wait until AWS makes no more calls for it, so that it does not terminate new nodes."""
    end = end_of(former)
    if end and end <= cloud.now < end + REPEATED + LATE:
        cloud.progress("waiting until AWS no longer terminates nodes because of the former lease")
        cloud.pause(LATE.total_seconds())


def _put_schedules(cloud: AwsClient, role: Found, properties: Properties) -> None:
    _ensure_group(cloud, properties)
    for name, call in properties["calls"].items():
        if messages.is_over(name, call["expression"], cloud.now):
            continue  # the run has taken long until here
        start = datetime.fromisoformat(properties["ends"][name]) if name in NODE_TYPES else None
        schedule = definition.schedule(cloud.cluster, properties["lease"], start, call, role.attributes["arn"])
        _put_schedule(cloud, {"GroupName": schedule_group(cloud.cluster), "Name": name, **schedule})


def _put_schedule(cloud: AwsClient, schedule: dict[str, Any]) -> None:
    """Replace the schedule, or create it. Retry while EventBridge Scheduler cannot use a new role."""

    def accepted() -> bool:
        try:
            try:
                cloud.scheduler.update_schedule(**schedule)
            except ClientError as error:
                if not is_missing(error):
                    raise
                cloud.scheduler.create_schedule(**schedule)
        except ClientError as error:
            refusals.append(error)
            # Another request is changing the schedule, the schedule group is new, or the role is new
            if error_code(error) == "ConflictException" or is_missing(error) or "to assume the role" in str(error):
                return False
            raise
        return True

    refusals: list[ClientError] = []
    try:
        cloud.wait_until("EventBridge Scheduler to accept the lease", accepted, ROLE_TIMEOUT, pause=1)
    except WaitTimeout as error:
        raise (refusals[-1] if refusals else error) from error


def _ensure_group(cloud: AwsClient, properties: Properties) -> None:
    """Create the schedule group unless it exists. If a former group is being deleted, wait for it."""
    name = schedule_group(cloud.cluster)

    def exists() -> bool:
        try:
            return bool(cloud.scheduler.get_schedule_group(Name=name)["State"] == "ACTIVE")
        except ClientError as error:
            if not is_missing(error):
                raise
        # Unlike other services, EventBridge Scheduler accepts no empty values
        cloud.scheduler.create_schedule_group(Name=name, Tags=tag_list({key: value for key, value in properties["tags"].items() if value}))
        return True

    cloud.wait_until(f"the deletion of the former schedule group {name}", exists, GROUP_TIMEOUT)


def _delete(cloud: AwsClient, found: Found) -> None:
    # While AWS deletes a group, its schedules still make calls
    _delete_schedules(cloud, {*NODE_TYPES, *found.properties["calls"]})
    cloud.once_unused(cloud.scheduler.delete_schedule_group, "ConflictException", Name=schedule_group(cloud.cluster))
    ROLE.delete(cloud, found)
    if cloud.module.params.get("state") != "absent":
        _wait_for_last_calls(cloud, found)


def _delete_schedules(cloud: AwsClient, names: Collection[str]) -> None:
    for name in sorted(names):
        cloud.once_unused(cloud.scheduler.delete_schedule, "ConflictException", GroupName=schedule_group(cloud.cluster), Name=name)


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
