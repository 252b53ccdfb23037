from __future__ import annotations

import lanes
import pytest

SOURCE = """
import pytest
%s
@pytest.mark.exhaustive
def test_long(): ...
@pytest.mark.frameworks()
def test_framework(): ...
@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_with_a_long_case(n): ...
def test_short(): ...
"""


@pytest.mark.parametrize(
    ("file", "assigned", "name", "expected"),
    [
        ("test_a.py", "", "test_long", "rotation"),
        ("test_a.py", "", "test_framework", "rotation"),
        ("test_a.py", "", "test_with_a_long_case", "part 2"),
        ("test_a.py", "", "test_short", "part 2"),
        ("test_b.py", "", "test_short", "each run"),
        ("test_b.py", "pytestmark = pytest.mark.timeout(3)", "test_short", "each run"),
        ("test_b.py", "pytestmark = pytest.mark.frameworks", "test_short", "rotation"),
        ("test_b.py", "pytestmark = [pytest.mark.rotation, pytest.mark.each_case]", "test_short", "rotation"),
    ],
)
def test_the_lane_of_a_test(tmp_path, monkeypatch, file, assigned, name, expected):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "parts.yml").write_text("1: []\n2: [test_a.py]\n")
    (tmp_path / "tests" / file).write_text(SOURCE % assigned)
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    monkeypatch.setattr(lanes, "_parts", lanes._parts.__wrapped__)
    monkeypatch.setattr(lanes, "_parsed", lanes._parsed.__wrapped__)
    assert lanes.lane(f"tests/{file}::{name}") == expected
