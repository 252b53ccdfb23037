"""Tests that check which instances have left an Auto Scaling group, according to the descriptions of the group's scaling activities."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.former_nodes import departures, former_instances

SINCE = datetime(2025, 6, 11, tzinfo=UTC)


def activity(description, days=0):
    return {"Description": description, "StartTime": SINCE + timedelta(days=days)}


def departure(instance, cause, replacement, launched, left):
    """Return a departure whose times are given in days, or None."""
    launched_at, left_at = (day if day is None else (SINCE + timedelta(days=day)).timestamp() for day in (launched, left))
    return {"instance_id": instance, "cause": cause, "replacement": replacement, "launched_at": launched_at, "left_at": left_at}


@pytest.mark.parametrize(
    ("description", "left"),
    [
        ("Terminating EC2 instance: i-0123456789abcdef0", {"i-0123456789abcdef0"}),
        ("Terminating EC2 instance: i-0123456789abcdef0 - Draining ELB connection.", {"i-0123456789abcdef0"}),
        ("Detaching EC2 instance: i-0123abcd", {"i-0123abcd"}),
        ("Launching a new EC2 instance: i-0123456789abcdef0", {"i-0123456789abcdef0"}),
        ("Launching a new EC2 instance.  Status Reason: Terminating EC2 instance: i-0123abcd", set()),
        ("Terminating EC2 instance: i-0\nevil", set()),
        ("", set()),
    ],
)
def test_instances_that_left(description, left):
    assert former_instances([activity(description)], SINCE, ()) == left


def test_what_runs_has_not_left():
    """If the group did not terminate an instance, only the launch activity names the instance, no matter how old this activity is."""
    launched = [activity(f"Launching a new EC2 instance: i-0000000{number}", days=-20) for number in (1, 2)]
    assert former_instances(launched, SINCE, {"i-00000001"}) == {"i-00000002"}
    terminating = [*launched, activity("Terminating EC2 instance: i-00000001")]
    assert former_instances(terminating, SINCE, {"i-00000001", "i-00000002"}) == {"i-00000001"}


def test_what_left_long_ago_is_not_told():
    """AWS lists activities in progress first, no matter how old they are, so an activity that is too old does not end the search."""
    found = [
        activity("Terminating EC2 instance: i-00000001", days=-1),
        activity("Terminating EC2 instance: i-00000002", days=1),
        activity("Launching a new EC2 instance: i-00000001", days=-2),
    ]
    assert former_instances(found, SINCE, ()) == {"i-00000002"}


def test_a_departure_has_its_cause_and_its_replacement():
    a, b, c, d = (f"i-0000000{number}" for number in "abcd")
    found = [
        activity(f"Launching a new EC2 instance: {d}", days=3),
        {**activity(f"Terminating EC2 instance: {a}", days=2), "Cause": "At noon an instance was taken out of service."},
        *(activity(f"Launching a new EC2 instance: {each}", days=1) for each in (a, b, c)),
    ]
    assert departures(found, {a}, {b, c, d}) == [departure(a, "At noon an instance was taken out of service.", d, 1, 2)]
    assert departures(found[1:], {a, b}, {c}) == [
        departure(a, "At noon an instance was taken out of service.", "", 1, 2),
        departure(b, "", "", 1, None),
    ]
    assert departures(found[1:2], {a}, ()) == [departure(a, "At noon an instance was taken out of service.", "", None, 2)]
    assert departures(found, {"i-0000000f"}, {b}) == [], "the instance belongs to the other group"


def test_an_instance_launched_before_the_departure_is_no_replacement():
    """A group may take minutes to detect that an instance was terminated. Until then, the group does not replace the instance."""
    a, b, c = (f"i-0000000{number}" for number in "abc")
    found = [activity(f"Launching a new EC2 instance: {each}", days=day) for day, each in enumerate((a, b, c))]
    assert departures(found, {a}, {b, c}) == [departure(a, "", "", 0, None)]
