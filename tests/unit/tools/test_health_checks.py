"""Tests that the tables of docs/health.md match the code."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

tool = SimpleNamespace(**runpy.run_path(str(Path(__file__).resolve().parents[3] / "tools" / "health_checks.py")))


def test_the_page_is_what_the_tables_give():
    assert tool.PAGE.read_text() == tool.page(), "run python tools/health_checks.py"


@pytest.mark.parametrize(
    ("codes", "text"), [([8], "8"), ([39, 40], "39, 40"), ([39, 40, 41, 70], "39 to 41, 70"), ([1, 3, 5, 6, 7], "1, 3, 5 to 7")]
)
def test_ranges(codes, text):
    assert tool.ranges(codes) == text
