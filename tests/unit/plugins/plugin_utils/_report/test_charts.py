"""Tests that arbitrary values can be drawn as charts, and that times have suitable units."""

from __future__ import annotations

import base64
from xml.etree import ElementTree

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._report import charts


@pytest.mark.parametrize(
    "values",
    [[0.0], [1.0, 1000.0, 0.5], [-1.0, 5.0], [1e-30, 1e30], [3.0] * 3],
)
def test_charts_are_images_of_any_values(values):
    curve = {"steps": list(range(len(values))), "times": list(range(len(values))), "means": values, "lows": values, "highs": values}
    for axis in ("steps", "times"):
        head, _comma, data = charts.curve(curve, axis).partition(",")
        assert head == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(data)).tag.endswith("svg")


def test_a_curve_that_goes_back_is_drawn_in_pieces():
    assert [list(range(6))[piece] for piece in charts.pieces([10, 20, 30, 20, 30, 40])] == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("times", "shown"), [([30], ([30], "seconds")), ([60, 600], ([1, 10], "minutes")), ([7200], ([2], "hours")), ([], ([], "seconds"))]
)
def test_times_have_the_unit_that_fits(times, shown):
    assert charts.scaled(times) == shown
