"""Tests of the time from which events are read. tests/integration/test_events.py tests the reading."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.cluster_events.read import start_of

NOW = datetime(2026, 9, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "expected"), [("90m", timedelta(minutes=90)), ("12h", timedelta(hours=12)), ("7d", timedelta(days=7)), ("2w", timedelta(14))]
)
def test_a_time_span(since, expected):
    assert NOW - start_of(since, NOW) == expected


@pytest.mark.parametrize("since", ["", "7", "0d", "-1d", "7 d", "7y", "123456d", "7d\n"])
def test_what_is_no_time_span(since):
    with pytest.raises(ValueError, match="is not a time span"):
        start_of(since, NOW)
