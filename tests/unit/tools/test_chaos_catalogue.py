"""Tests that the tables of docs/chaos.md match the catalogue."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

tool = SimpleNamespace(**runpy.run_path(str(Path(__file__).resolve().parents[3] / "tools" / "chaos_catalogue.py")))


def test_the_page_is_what_the_catalogue_gives():
    assert tool.PAGE.read_text() == tool.page(), "run python tools/chaos_catalogue.py"
