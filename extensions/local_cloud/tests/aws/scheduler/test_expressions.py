"""The times of schedule expressions."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from local_cloud.aws.scheduler.errors import SchedulerError
from local_cloud.aws.scheduler.expressions import Times, parse


def times(found: Times, start: str, zone: str, count: int = 3) -> list[str]:
    """Return the first times, as local times in the zone."""

    def moments(moment: float | None) -> object:
        while moment is not None:
            yield datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M:%S")
            moment = found.next(moment)

    first = found.first(datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)).timestamp())
    return list(islice(moments(first), count))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        ("at(2026-11-30T10:20:30)", "Asia/Seoul", "2030-01-01", ["2026-11-30T10:20:30"]),
        ("rate(5 minutes)", "UTC", "2026-01-01T00:00:30", ["2026-01-01T00:00:30", "2026-01-01T00:05:30", "2026-01-01T00:10:30"]),
        ("rate(1 days)", "UTC", "2026-01-01", ["2026-01-01T00:00:00", "2026-01-02T00:00:00", "2026-01-03T00:00:00"]),
        ("cron(0/20 9 * * ? *)", "UTC", "2026-01-01T09:01", ["2026-01-01T09:20:00", "2026-01-01T09:40:00", "2026-01-02T09:00:00"]),
        ("cron(30 8 ? * MON-WED,6 *)", "UTC", "2026-11-24T09:00", ["2026-11-25T08:30:00", "2026-11-27T08:30:00", "2026-11-30T08:30:00"]),
        ("cron(0 0 29 FEB ? *)", "UTC", "2026-01-01", ["2028-02-29T00:00:00", "2032-02-29T00:00:00", "2036-02-29T00:00:00"]),
        ("cron(0 0 1 1 ? 2027)", "UTC", "2026-01-01", ["2027-01-01T00:00:00"]),
        ("cron(30 2 * * ? *)", "Europe/Berlin", "2026-03-28", ["2026-03-28T02:30:00", "2026-03-30T02:30:00", "2026-03-31T02:30:00"]),
        ("cron(30 2 * * ? *)", "Europe/Berlin", "2026-10-24", ["2026-10-24T02:30:00", "2026-10-25T02:30:00", "2026-10-26T02:30:00"]),
    ],
)
def test_times(expression: str, zone: str, start: str, expected: list[str]) -> None:
    assert times(parse(expression, zone), start, zone) == expected


def test_the_same_local_time_is_another_time_in_another_zone() -> None:
    here, there = (parse("at(2026-07-01T12:00:00)", zone).first(0) for zone in ("UTC", "America/New_York"))
    assert here is not None
    assert there == here + 4 * 3600


@pytest.mark.parametrize(
    "expression",
    [
        "at(2026-11-30T10:20:30.439)",
        "at(2026-11-30T10:20:30Z)",
        "at(2026-11-30 10:20:30)",
        "at(2026-11-30T10:20)",
        "at(2026-02-30T10:20:30)",
        "rate(0 minutes)",
        "rate(90 seconds)",
        "rate(1.5 hours)",
        "cron(0 9 * * *)",
        "cron(0 9 * * * *)",
        "cron(0 9 ? * ? *)",
        "cron(60 9 * * ? *)",
        "cron(5-2 9 * * ? *)",
        "cron(0/0 9 * * ? *)",
        "cron(0 9 * FOO ? *)",
        "tomorrow",
    ],
)
def test_invalid_expressions(expression: str) -> None:
    with pytest.raises(SchedulerError, match="Invalid Schedule Expression") as caught:
        parse(expression, "UTC")
    assert expression in str(caught.value)


@pytest.mark.parametrize("field", ["L", "LW", "15W"])
def test_some_cron_fields_are_not_implemented(field: str) -> None:
    with pytest.raises(SchedulerError, match="does not implement L, W and #"):
        parse(f"cron(0 9 {field} * ? *)", "UTC")


def test_unknown_time_zones() -> None:
    with pytest.raises(SchedulerError, match="Timezone Mars/Base"):
        parse("rate(1 day)", "Mars/Base")
