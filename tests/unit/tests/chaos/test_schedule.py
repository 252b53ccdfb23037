"""Tests of the schedule of the chaos suite."""

from __future__ import annotations

from chaos.schedule import schedule


def test_the_same_seed_gives_the_same_schedule():
    assert schedule("abcdefgh", 20, 1) == schedule("abcdefgh", 20, 1) != schedule("abcdefgh", 20, 2)


def test_each_fault_occurs_before_any_occurs_again():
    found = schedule("abcd", 10, 3)
    assert [sorted(found[:4]), sorted(found[4:8])] == [list("abcd")] * 2
    assert len(set(found[8:])) == 2
