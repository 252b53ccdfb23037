"""Schedules, and the occurrences at which they invoke their targets.

Sources: EventBridge Scheduler API Reference; User Guide, "Deleting a schedule", "Troubleshooting Amazon EventBridge Scheduler" and
"Confused deputy prevention".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from moto.scheduler.models import EventBridgeSchedulerBackend

from ..context import CLOUD
from ..iam.role_sessions import find_role
from ..iam.trust_policies import may_assume
from ..iam.visibility import age
from . import expressions, targets
from .errors import invalid

LOG = logging.getLogger(__name__)
SERVICE = "scheduler.amazonaws.com"
DEFAULTS = {"ActionAfterCompletion": "NONE", "ScheduleExpressionTimezone": "UTC", "State": "ENABLED"}
# The earliest start of a recurring schedule, in seconds before the request.
EARLIEST_START = 300
# Seconds between two attempts. AWS documents that they grow exponentially, and that there are at most 185 retries in 24 hours.
FIRST_RETRY, LONGEST_RETRY = 1.0, 480.0


class Schedule:
    """A schedule. moto reads `name`, `arn`, `state` and `creation_date`."""

    def __init__(self, backend: EventBridgeSchedulerBackend, group: str, name: str, definition: Mapping[str, Any]) -> None:
        self.backend, self.group_name, self.name = backend, group, name
        self.arn = f"arn:{backend.partition}:scheduler:{backend.region_name}:{backend.account_id}:schedule/{group}/{name}"
        self.creation_date = CLOUD.clock.now()
        self.pending: Occurrence | None = None
        """The next occurrence."""
        self.define(definition)

    @property
    def state(self) -> str:
        return str(self.definition["State"])

    def define(self, definition: Mapping[str, Any]) -> None:
        """Replace the whole definition: values that are not given get their defaults. Raises `ValidationException`."""
        merged = {**DEFAULTS, **definition, "Target": targets.checked(definition["Target"])}
        now, times = CLOUD.clock.now(), expressions.parse(merged["ScheduleExpression"], merged["ScheduleExpressionTimezone"])
        recurring = not isinstance(times, expressions.Once)
        _check_window(merged["FlexibleTimeWindow"])
        if recurring:
            _check_dates(merged, now)
        check_role(self.backend, self.group_name, merged["Target"]["RoleArn"])
        self.definition, self.times = merged, times
        self.last_modified_date = now
        self.end = merged.get("EndDate") if recurring else None
        self.cancel()
        if self.state == "ENABLED":
            self._plan(times.first(merged.get("StartDate", now) if recurring else now))

    def cancel(self) -> None:
        """Cancel the next occurrence. On AWS and here, it takes a while until this has an effect."""
        if self.pending:
            self.pending.cancelled_at = CLOUD.clock.now()
        self.pending = None

    def follow(self, occurrence: Occurrence) -> None:
        """Plan the occurrence after one that has begun. Those that were missed while the local cloud was stopped are skipped."""
        if self.pending is occurrence:
            due, earliest = self.times.next(occurrence.due), CLOUD.clock.now() - self._delay()
            while due is not None and due < earliest:
                due = self.times.next(due)
            self.pending = None
            self._plan(due)

    def complete(self, occurrence: Occurrence) -> None:
        """Delete the schedule if this was its last occurrence and it is to be deleted then. Otherwise, it remains, and remains enabled."""
        is_last = occurrence.definition is self.definition and not self.pending
        group = self.backend.schedule_groups.get(self.group_name)
        if self.definition["ActionAfterCompletion"] == "DELETE" and is_last and group and group.schedules.get(self.name) is self:
            del group.schedules[self.name]

    def to_dict(self, short: bool = False) -> dict[str, Any]:
        """Return the schedule as in responses. `short` selects the form in which schedules are listed."""
        about = {"Arn": self.arn, "Name": self.name, "GroupName": self.group_name}
        about |= {"CreationDate": self.creation_date, "LastModificationDate": self.last_modified_date}
        target = self.definition["Target"]
        return about | ({"State": self.state, "Target": {"Arn": target["Arn"]}} if short else self.definition)

    def _delay(self) -> float:
        """Return the seconds from the due time of an occurrence to its first attempt: the latest time that AWS allows itself."""
        return float(CLOUD.delays.schedule_latency + 60 * self.definition["FlexibleTimeWindow"].get("MaximumWindowInMinutes", 0))

    def _plan(self, due: float | None) -> None:
        if due is not None and (self.end is None or due < self.end):
            self.pending = Occurrence(self, due)
            CLOUD.clock.after(due + self._delay() - CLOUD.clock.now(), self.pending.begin)


class Occurrence:
    """One invocation of a schedule's target, which consists of one or more attempts. Changes to the schedule do not affect it."""

    def __init__(self, schedule: Schedule, due: float) -> None:
        self.schedule, self.due = schedule, due
        self.definition = schedule.definition
        self.attempts = 0
        self.cancelled_at: float | None = None

    def begin(self) -> None:
        """Make the first attempt, unless the occurrence was cancelled in time."""
        if self.cancelled_at is None or CLOUD.clock.now() < self.cancelled_at + CLOUD.delays.schedule_change:
            self.schedule.follow(self)
            self.attempt()

    def attempt(self) -> None:
        """Let the thread that makes the calls of schedules make this call."""
        CLOUD.invocations.append(self)
        CLOUD.invoke.set()

    def conclude(self, failure: str) -> None:
        """Record the result of an attempt: '' or the reason for a failure. Failed attempts are repeated as the retry policy says."""
        self.attempts += 1
        policy = self.definition["Target"]["RetryPolicy"]
        wait = min(FIRST_RETRY * 2 ** (self.attempts - 1), LONGEST_RETRY)
        in_time = CLOUD.clock.now() + wait <= self.due + policy["MaximumEventAgeInSeconds"]
        if failure:
            LOG.info("Attempt %d of %s has failed: %s", self.attempts, self.schedule.arn, failure)
        if failure and in_time and self.attempts <= policy["MaximumRetryAttempts"]:
            CLOUD.clock.after(wait, self.attempt)
        else:
            self.schedule.complete(self)


def check_role(backend: EventBridgeSchedulerBackend, group: str, arn: str) -> None:
    """Raise `ValidationException` for a role that Scheduler may not assume for this schedule group, or that is too new."""
    role = find_role(backend, arn)
    source = f"arn:{backend.partition}:scheduler:{backend.region_name}:{backend.account_id}:schedule-group/{group}"
    context = {"aws:sourceaccount": backend.account_id, "aws:sourcearn": source}
    if role is None or age(role) < CLOUD.delays.scheduler_role or not may_assume(SERVICE, role, context):
        raise invalid("The execution role you provide must allow AWS EventBridge Scheduler to assume the role.")


def _check_window(window: Mapping[str, Any]) -> None:
    if (window["Mode"] == "FLEXIBLE") is not ("MaximumWindowInMinutes" in window):
        raise invalid("FlexibleTimeWindow: MaximumWindowInMinutes must be given for the mode FLEXIBLE, and only for this mode.")


def _check_dates(definition: Mapping[str, Any], now: float) -> None:
    start, end = definition.get("StartDate", now), definition.get("EndDate")
    if start < now - EARLIEST_START:
        raise invalid("The StartDate you specify cannot be earlier than 5 minutes ago.")
    if end is not None and end <= max(start, now):
        raise invalid("The EndDate you specify must be later than the StartDate and the current time.")
