"""The API of schedules and schedule groups."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from urllib.parse import unquote

from moto.scheduler.models import EventBridgeSchedulerBackend, ScheduleGroup
from moto.scheduler.responses import EventBridgeSchedulerResponse

from ..context import CLOUD
from ..override import check_before, override
from .errors import conflict, invalid, unavailable, unknown
from .schedules import Schedule

DEFAULT = "default"
DEFINITION = (
    "ActionAfterCompletion",
    "Description",
    "EndDate",
    "FlexibleTimeWindow",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "StartDate",
    "State",
    "Target",
)

moto_create_group = EventBridgeSchedulerResponse.create_schedule_group


@override(EventBridgeSchedulerResponse)
def create_schedule(self: EventBridgeSchedulerResponse) -> str:
    """Create the schedule. An existing name is a conflict, whatever the client token."""
    request = _request(self)
    group, name = _group(self.scheduler_backend, request.get("GroupName")), _name(self)
    if _state(group) == "DELETING":
        raise conflict(f"Schedule group {group.name} is being deleted.")
    if name in group.schedules:
        raise conflict(f"Schedule {name} already exists.")
    schedule = Schedule(self.scheduler_backend, group.name, name, _definition(request))
    group.add_schedule(schedule)  # type: ignore[arg-type]
    return json.dumps({"ScheduleArn": schedule.arn})


@override(EventBridgeSchedulerResponse)
def update_schedule(self: EventBridgeSchedulerResponse) -> str:
    """Replace the definition of the schedule. Values that are not given get their defaults."""
    request = _request(self)
    schedule = _schedule(_group(self.scheduler_backend, request.get("GroupName")), _name(self))
    schedule.define(_definition(request))
    return json.dumps({"ScheduleArn": schedule.arn})


@override(EventBridgeSchedulerResponse)
def delete_schedule(self: EventBridgeSchedulerResponse) -> str:
    group = _group(self.scheduler_backend, self._get_param("groupName"))
    _schedule(group, _name(self)).cancel()
    group.delete_schedule(_name(self))
    return "{}"


@override(EventBridgeSchedulerResponse)
def create_schedule_group(self: EventBridgeSchedulerResponse) -> str:
    """Create the group. An existing name is a conflict."""
    name = _name(self)
    if name in self.scheduler_backend.schedule_groups:
        raise conflict(f"Schedule group {name} already exists.")
    request = _request(self)
    group = self.scheduler_backend.create_schedule_group(name=name, tags=request.get("Tags", []))
    return json.dumps({"ScheduleGroupArn": group.arn})


@override(EventBridgeSchedulerResponse)
def delete_schedule_group(self: EventBridgeSchedulerResponse) -> str:
    """Delete the group and its schedules after a while. Until then, the schedules still invoke their targets."""
    group = _group(self.scheduler_backend, _name(self))
    if group.name == DEFAULT:
        raise invalid("The default schedule group cannot be deleted.")
    if _state(group) == "DELETING":
        raise conflict(f"Schedule group {group.name} is being deleted.")
    group.__dict__["state"] = "DELETING"
    CLOUD.clock.after(CLOUD.delays.schedule_group, partial(_finish_deletion, self.scheduler_backend, group))
    return "{}"


@override(EventBridgeSchedulerResponse)
def tag_resource(self: EventBridgeSchedulerResponse) -> str:
    self.scheduler_backend.tag_resource(_arn(self), _request(self)["Tags"])
    return "{}"


@override(ScheduleGroup)
def to_dict(self: ScheduleGroup) -> dict[str, Any]:
    dates = {"CreationDate": self.created_on, "LastModificationDate": self.last_modified}
    return {"Arn": self.arn, "Name": self.name, "State": _state(self), **(dates if self.created_on else {})}


def _finish_deletion(backend: EventBridgeSchedulerBackend, group: ScheduleGroup) -> None:
    for schedule in group.schedules.values():
        schedule.cancel()  # type: ignore[attr-defined]
    backend.delete_schedule_group(group.name)


def _check_tagged(response: EventBridgeSchedulerResponse) -> None:
    """Raise `ResourceNotFoundException` for tags of a group that does not exist."""
    _group(response.scheduler_backend, _arn(response).rpartition("/")[2])


for _action in ("tag_resource", "untag_resource", "list_tags_for_resource"):
    check_before(EventBridgeSchedulerResponse, _action, _check_tagged)


def _request(response: EventBridgeSchedulerResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.body or "{}")
    return found


def _path(response: EventBridgeSchedulerResponse) -> str:
    return unquote(response.uri.partition("?")[0])


def _name(response: EventBridgeSchedulerResponse) -> str:
    return _path(response).rpartition("/")[2]


def _arn(response: EventBridgeSchedulerResponse) -> str:
    return _path(response).partition("/tags/")[2]


def _definition(request: dict[str, Any]) -> dict[str, Any]:
    if "KmsKeyArn" in request:
        raise unavailable("customer managed keys (KmsKeyArn)")
    return {name: request[name] for name in DEFINITION if name in request}


def _group(backend: EventBridgeSchedulerBackend, name: str | None) -> ScheduleGroup:
    if (name or DEFAULT) not in backend.schedule_groups:
        raise unknown(f"Schedule group {name} does not exist.")
    return backend.schedule_groups[name or DEFAULT]


def _state(group: ScheduleGroup) -> str:
    return str(group.__dict__.get("state", "ACTIVE"))


def _schedule(group: ScheduleGroup, name: str) -> Schedule:
    found: Any = group.schedules.get(name)
    if found is None:
        raise unknown(f"Schedule {name} does not exist.")
    schedule: Schedule = found
    return schedule
