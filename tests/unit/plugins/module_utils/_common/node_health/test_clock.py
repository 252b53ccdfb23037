"""Tests of the findings about the clock of a host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health import clock
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode
from unit.plugins.module_utils._hosts.node_health.problems import severities

NODE = CheckedNode("ubuntu")


@pytest.mark.parametrize(
    ("before", "host", "after", "severity", "words"),
    [
        (100, 101, 102, [], ""),
        (100, 96, 102, [], ""),
        (100, 106.9, 102, [], ""),
        (100, 90, 102, ["monitor"], "10 s behind"),
        (100, 112, 102, ["monitor"], "10 s ahead of"),
        (100, 30, 102, ["restart"], "70 s behind"),
        (100, 170, 102, ["restart"], "68 s ahead of"),
        (100, 150, 200, [], ""),
    ],
)
def test_a_clock_is_wrong_by_what_the_duration_does_not_explain(before, host, after, severity, words):
    found = clock.decide_clock((before, host, after), NODE)
    assert severities(found) == severity
    assert words in "".join(message for _severity, message in found)
