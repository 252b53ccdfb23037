"""Tables of the status command."""

from __future__ import annotations

from local_cloud.status import columns


def test_columns_are_aligned() -> None:
    assert columns(("a", "b"), [("long", ""), ("x", "y")]) == "a     b\nlong  -\nx     y"
