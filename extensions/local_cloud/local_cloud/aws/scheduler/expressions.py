"""Schedule expressions: `at(...)`, `rate(...)` and `cron(...)`. All times are seconds since the epoch.

Source: EventBridge Scheduler User Guide, "Schedule types in EventBridge Scheduler".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import product
from typing import Protocol
from zoneinfo import ZoneInfo, available_timezones

from .errors import invalid, unavailable

AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
RATE = re.compile(r"rate\(([1-9]\d*) (minute|hour|day)s?\)")
CRON = re.compile(r"cron\(([^()]+)\)")
SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
MINUTE = 60
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
LAST_YEAR = 2199
# The least and the greatest value of each field of a cron expression, and the names that values have, beginning with the least value.
FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, MONTHS),
    (1, 7, WEEKDAYS),
    (1970, LAST_YEAR, ()),
)
PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?")


class Times(Protocol):
    """The times at which a schedule invokes its target."""

    def first(self, start: float) -> float | None:
        """Return the first time for a schedule that starts at `start`, or None if there is none."""

    def next(self, previous: float) -> float | None:
        """Return the time after `previous`, which is one of the times, or None if there is none."""


@dataclass(frozen=True)
class Once:
    """A single time, which does not depend on the start of the schedule."""

    time: float

    def first(self, _start: float) -> float | None:
        return self.time

    def next(self, _previous: float) -> float | None:
        return None


@dataclass(frozen=True)
class Rate:
    """The start of the schedule, and then each end of an interval in seconds."""

    interval: int

    def first(self, start: float) -> float | None:
        return start

    def next(self, previous: float) -> float | None:
        return previous + self.interval


@dataclass(frozen=True)
class Cron:
    """The minutes that match a cron expression. Times that a change to daylight saving time leaves out are skipped."""

    zone: ZoneInfo
    fields: tuple[frozenset[int], ...]

    def first(self, start: float) -> float | None:
        minutes, hours, days, months, weekdays, years = self.fields
        day = datetime.fromtimestamp(start, self.zone).date()
        while day.year <= max(years):
            if day.year in years and day.month in months and day.day in days and (day.weekday() + 1) % 7 + 1 in weekdays:
                for hour, minute in product(sorted(hours), sorted(minutes)):
                    moment = self._moment(day, time(hour, minute))
                    if moment is not None and moment >= start:
                        return moment
            day += timedelta(days=1)
        return None

    def next(self, previous: float) -> float | None:
        return self.first(previous + MINUTE)

    def _moment(self, day: date, clock: time) -> float | None:
        local = datetime.combine(day, clock, self.zone)
        return local.timestamp() if local.astimezone(UTC).astimezone(self.zone) == local else None


@cache
def _zones() -> set[str]:
    return available_timezones()


def parse(expression: str, zone: str) -> Times:
    """Return the times of an expression in a time zone. Raises `ValidationException`."""
    if zone not in _zones():
        raise invalid(f"Invalid Schedule Expression Timezone {zone}.")
    try:
        return _parse(expression, ZoneInfo(zone))
    except ValueError:
        raise invalid(f"Invalid Schedule Expression {expression}.") from None


def _parse(expression: str, zone: ZoneInfo) -> Times:
    if found := AT.fullmatch(expression):
        return Once(datetime.fromisoformat(found[1]).replace(tzinfo=zone).timestamp())
    if found := RATE.fullmatch(expression):
        return Rate(int(found[1]) * SECONDS[found[2]])
    if found := CRON.fullmatch(expression):
        texts = found[1].split()
        if len(texts) != len(FIELDS) or [texts[2], texts[4]].count("?") != 1:
            raise ValueError(expression)
        return Cron(zone, tuple(_field(text.upper(), *field) for text, field in zip(texts, FIELDS)))
    raise ValueError(expression)


def _field(text: str, least: int, most: int, names: tuple[str, ...]) -> frozenset[int]:
    """Return the values that a field of a cron expression allows. Raises `ValueError`."""
    if re.fullmatch(r"L|\d*LW?|\d+W|\w+#\d", text):
        raise unavailable(f"L, W and # in cron expressions ({text})")
    values: set[int] = set()
    for part in ("*" if text == "?" else text).split(","):
        found = PART.fullmatch(part)
        if found is None:
            raise ValueError(part)
        low, high, step = found.groups()
        first = _value(low, least, names) if low else least
        last = _value(high, least, names) if high else most if step or not low else first
        if not least <= first <= last <= most or step == "0":
            raise ValueError(part)
        values.update(range(first, last + 1, int(step or 1)))
    return frozenset(values)


def _value(text: str, least: int, names: tuple[str, ...]) -> int:
    return names.index(text) + least if text in names else int(text)
