"""Tests that instances keep their numbers."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_names import assign_numbers, numbers


def test_the_master_is_one_and_workers_follow():
    assert numbers("master", 5) == (1,)
    assert numbers("workers", 3) == (2, 3, 4)


@pytest.mark.parametrize(
    ("group", "numbered", "unnumbered", "size", "expected"),
    [
        ("workers", {}, ["i-a", "i-b"], 2, {"i-a": 2, "i-b": 3}),
        ("workers", {"i-a": 2, "i-b": 3}, ["i-c"], 3, {"i-a": 2, "i-b": 3, "i-c": 4}),
        ("workers", {"i-b": 3}, ["i-c"], 2, {"i-b": 3, "i-c": 2}),
        ("workers", {"i-d": 4}, ["i-c"], 1, {"i-d": 4, "i-c": 2}),
        ("master", {}, ["i-m"], 1, {"i-m": 1}),
        ("master", {"i-m": 1}, [], 1, {"i-m": 1}),
    ],
)
def test_assign_numbers(group, numbered, unnumbered, size, expected):
    assert assign_numbers(group, numbered, unnumbered, size) == expected
