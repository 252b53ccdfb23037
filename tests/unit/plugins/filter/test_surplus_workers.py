"""Tests that check which workers are removed when the number of workers decreases."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.deeplearning.cluster.plugins.filter.surplus_workers import surplus_workers


def hosts(*numbers):
    return [{"deeplearning_number": number, "deeplearning_hostname": f"worker{number}"} for number in numbers]


@pytest.mark.parametrize(
    ("numbers", "count", "gone"),
    [
        ((2, 3, 4), 1, ["worker3", "worker4"]),
        ((10, 9, 2), "2", ["worker10"]),
        ((2, 4), 1, ["worker4"]),
        ((3, 4), 2, []),  # the number is correct, although worker2 is missing
        ((2, 3), 2, []),
        ((2, 3), 5, []),
        ((), 2, []),
        ((2, 3), None, []),
        ((2, 3), -1, ["worker2", "worker3"]),
    ],
)
def test_the_highest_numbers_go(numbers, count, gone):
    assert surplus_workers(hosts(*numbers), count) == gone


@pytest.mark.parametrize(
    ("found", "count", "message"),
    [
        ([{"deeplearning_number": 2}], 0, "deeplearning_hostname: the variable is not set"),
        (hosts(2), "many", "'many' is not a whole number"),
    ],
)
def test_a_guess_is_not_made(found, count, message):
    with pytest.raises(AnsibleFilterError, match=message):
        surplus_workers(found, count)
