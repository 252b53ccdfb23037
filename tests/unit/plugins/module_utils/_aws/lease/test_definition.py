"""Tests of the terms of a lease."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.lease import definition, messages
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found

NOW = datetime(2026, 11, 29, 9, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "terms", "end"),
    [
        ("8h", "28800 s", "2026-11-29T17:00:00Z"),
        ("480m", "28800 s", "2026-11-29T17:00:00Z"),
        ("1d 12h", "129600 s", "2026-11-30T21:00:00Z"),
        ("15m", "900 s", "2026-11-29T09:15:00Z"),
        ("365d", "31536000 s", "2027-11-29T09:00:00Z"),
        ("2026-12-01T18:00Z", "2026-12-01T18:00:00Z", "2026-12-01T18:00:00Z"),
        # YAML reads times without quotes, and Ansible writes them like this
        ("2026-12-01 18:00:00+00:00", "2026-12-01T18:00:00Z", "2026-12-01T18:00:00Z"),
        ("2026-12-01T18:00+01:00", "2026-12-01T17:00:00Z", "2026-12-01T17:00:00Z"),
    ],
)
def test_terms_in_other_words_are_the_same(text, terms, end):
    found = definition.parse(text)
    assert (str(found), definition.iso(found.end(NOW))) == (terms, end)


@pytest.mark.parametrize(
    "text", ["8", "8 hours", "0h", "14m", "366d", "", "8h30", "h", "-8h", "1.5h", "2026-12-01", "2026-12-01T18:00", "tomorrow", "480"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=repr(text)):
        definition.parse(text)


def test_a_duration_lasts_at_least_as_long_as_needed():
    assert definition.parse("8h").end(NOW, timedelta(hours=10)) == NOW.replace(microsecond=0) + timedelta(hours=10)
    fixed = definition.parse("2026-11-29T10:00Z")
    assert fixed.end(NOW, timedelta(hours=10)) == NOW.replace(hour=10, microsecond=0)


@pytest.mark.parametrize(
    ("changes", "is_equal"),
    [
        ({}, True),
        ({"KmsKeyArn": "arn:aws:kms:us-east-1:123456789012:key/a"}, False),
        ({"StartDate": NOW - timedelta(days=9)}, False),
        ({"EndDate": None}, False),
    ],
)
def test_a_schedule_with_a_key_or_dates_of_others_is_a_difference(changes, is_equal):
    terms = definition.parse("8h")
    call = definition.calls("demo", "us-east-1", terms, terms.end(NOW), NOW, None)["master"]
    schedule = definition.schedule("demo", str(terms), terms.end(NOW), call, "arn:aws:iam::123456789012:role/deeplearning/" + call["role"])
    assert (definition.found_call({**schedule, **changes}) == call) == is_equal


def schedule(action, expression, arguments, **dates):
    """Return a schedule of the lease as AWS gets it."""
    return {
        "Description": "For the end of the nodes of the training cluster demo (lease: 28800 s)",
        "ScheduleExpression": expression,
        "ScheduleExpressionTimezone": "UTC",
        "State": "ENABLED",
        "ActionAfterCompletion": "NONE",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {
            "Arn": f"arn:aws-us-gov:scheduler:::aws-sdk:{action}",
            "RoleArn": "arn:role",
            "Input": json.dumps(arguments),
            "RetryPolicy": {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 3},
        },
        **dates,
    }


def test_aws_deletes_the_groups_every_5_minutes_for_a_day_and_tells_people_once():
    region, topic = "us-gov-west-1", "arn:topic"
    terms = definition.parse("8h")
    end = terms.end(NOW)
    made = definition.wanted(terms, end, NOW, "demo", region, lambda address: {"of": address}, "arn:boundary", topic)
    properties, groups = dict(made.properties), {name: f"demo-{name}" for name in ("master", "workers")}
    told = messages.inputs("demo", region, end, False, topic)
    calls = properties.pop("calls")
    assert {name: definition.schedule("demo", "28800 s", end if name in groups else None, calls[name], "arn:role") for name in calls} == {
        **{
            name: schedule(
                "autoscaling:deleteAutoScalingGroup",
                "rate(5 minutes)",
                {"AutoScalingGroupName": group, "ForceDelete": True},
                StartDate=end,
                EndDate=end + timedelta(days=1),
            )
            for name, group in groups.items()
        },
        "warning": schedule("sns:publish", "at(2026-11-29T16:50:00)", told["warning"]),
        "ended": schedule("sns:publish", "at(2026-11-29T17:00:00)", told["ended"]),
    }
    role, arn = "demo-nodes-lease-us-gov-west-1", "arn:aws-us-gov:{}:us-gov-west-1:*:{}"
    assert {call["role"] for call in calls.values()} == {role}
    source = {"ArnLike": {"aws:SourceArn": arn.format("scheduler", "schedule-group/demo-nodes-lease")}}
    trust = {"Effect": "Allow", "Principal": {"Service": "scheduler.amazonaws.com"}, "Action": "sts:AssumeRole", "Condition": source}
    deletions = [arn.format("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{group}") for group in groups.values()]
    allowed = {"Sid": "EndNodes", "Effect": "Allow", "Action": "autoscaling:DeleteAutoScalingGroup", "Resource": deletions}
    assert (made.address, properties) == (
        definition.LEASE,
        {
            "name": role,
            "trust": {"Version": "2012-10-17", "Statement": [trust]},
            "permissions_boundary": "arn:boundary",
            "policy": {"Version": "2012-10-17", "Statement": [allowed, *messages.statements(topic)]},
            "tags": {"of": definition.LEASE},
            "lease": "28800 s",
            "ends": dict.fromkeys(groups, "2026-11-29T17:00:00Z"),
        },
    )
    fixed = definition.calls("demo", region, definition.parse(definition.iso(end)), end, NOW, topic)
    assert fixed["warning"]["input"] == messages.inputs("demo", region, end, True, topic)["warning"]


@pytest.mark.parametrize(
    ("ends", "end"),
    [
        ({"master": "2026-11-29T17:00:00Z", "workers": "2026-11-29T16:00:00Z"}, "2026-11-29T16:00:00Z"),
        ({"master": "2026-11-29T17:00:00Z", "workers": None}, "2026-11-29T17:00:00Z"),
        ({"master": None, "workers": None}, None),
    ],
)
def test_a_lease_ends_when_the_first_group_does(ends, end):
    found = definition.end_of(Found(definition.LEASE, "l", {"ends": ends}))
    assert (found and definition.iso(found)) == end


def test_names_are_within_the_limits_of_aws():
    """Role names have at most 64 characters, and cluster names at most 30."""
    assert len(definition.role_name("c" * 30, "us-gov-northwest-1")) <= 64


@pytest.mark.parametrize(
    ("arn", "name"),
    [
        ("arn:aws:iam::123456789012:role/deeplearning/demo-nodes-lease-us-east-1", "demo-nodes-lease-us-east-1"),
        ("arn:aws:iam::123456789012:role/other", "arn:aws:iam::123456789012:role/other"),
    ],
)
def test_a_role_of_others_is_a_difference(arn, name):
    assert definition.role_in(arn) == name
