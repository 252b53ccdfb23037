"""Tests of numbers, times and forms of words in sentences."""

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output import words


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.7, "1 min 0 s"), (185, "3 min 5 s"), (7460, "2 h 4 min")])
def test_duration(seconds, text):
    assert words.duration(seconds) == text


def test_a_point_in_time_is_in_utc():
    assert [words.moment(seconds) for seconds in (0, None)] == ["1970-01-01 00:00:00", "-"]


def test_a_share_is_a_percentage_with_one_decimal():
    assert words.percent(0.1234) == "12.3 %"
