"""Tests of the terms of a lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.lease import definition

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
    [({}, True), ({"KmsKeyArn": "arn:aws:kms:us-east-1:123456789012:key/a"}, False), ({"StartDate": NOW - timedelta(days=9)}, False)],
)
def test_a_schedule_with_a_key_or_dates_of_others_is_a_difference(changes, is_equal):
    terms = definition.parse("8h")
    call = definition.calls("demo", "us-east-1", terms, terms.end(NOW), NOW, None)["master"]
    schedule = definition.schedule("demo", str(terms), terms.end(NOW), call, "arn:aws:iam::123456789012:role/deeplearning/" + call["role"])
    assert (definition.found_call({**schedule, **changes}) == call) == is_equal


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
