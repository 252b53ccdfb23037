# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the pairs in which all-reduce is measured, and of the verdict about slow nodes."""

from __future__ import annotations

import collections
import itertools
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "roles" / "node_health" / "files" / "all_reduce.py"
script = SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def measured(count, *slow, rate=10.0, slow_rate=1.0):
    """Return the bandwidths of all pairs if these nodes are slow."""
    pairs = itertools.chain.from_iterable(script.rounds(count))
    return {pair: slow_rate if set(pair) & set(slow) else rate for pair in pairs}


def names(count):
    return [f"worker{number + 1}" for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 15, 16, 100])
def test_each_node_is_in_several_pairs_but_only_in_one_at_a_time(count):
    rounds = script.rounds(count)
    assert len(rounds) == min(script.ROUNDS, count - 1 + count % 2)
    for pairs in rounds:
        nodes = list(itertools.chain.from_iterable(pairs))
        assert len(nodes) == len(set(nodes)) == count - count % 2
    pairs = list(itertools.chain.from_iterable(rounds))
    assert len(pairs) == len(set(pairs))
    partners = collections.Counter(itertools.chain.from_iterable(pairs))
    assert all(partners[node] >= min(count - 1, script.ROUNDS - 1) for node in range(count))


@pytest.mark.parametrize("count", [3, 4, 5, 16])
def test_a_slow_node_is_named_and_its_partners_are_not(count):
    assert script.complaints(names(count), measured(count), 0, 0.5) == []
    for slow in range(count):
        assert script.complaints(names(count), measured(count, slow), 0, 0.5) == [
            f"worker{slow + 1}: all-reduce reaches 1 Gbit/s, and the median of all nodes is 10 Gbit/s."
        ]


def test_several_slow_nodes_are_named():
    found = script.complaints(names(16), measured(16, 3, 12), 0, 0.5)
    assert [sentence.partition(":")[0] for sentence in found] == ["worker4", "worker13"]


def test_a_pair_that_failed_has_no_bandwidth():
    found = script.complaints(names(4), measured(4, 2, slow_rate=0.0), 0, 0.5)
    assert found == ["worker3: all-reduce reaches 0 Gbit/s, and the median of all nodes is 10 Gbit/s."]


def test_the_share_of_the_median_is_an_option():
    assert script.complaints(names(4), measured(4, 2), 0, 0.1) == []
    assert len(script.complaints(names(4), measured(4, 2), 0, 0.11)) == 1


def test_all_nodes_can_be_too_slow():
    assert script.complaints(names(2), measured(2), 10, 0.5) == []
    assert script.complaints(names(2), measured(2), 11, 0.5) == [
        "worker1: all-reduce reaches 10 Gbit/s, and not 11 Gbit/s.",
        "worker2: all-reduce reaches 10 Gbit/s, and not 11 Gbit/s.",
    ]
    assert script.complaints(names(1), {}, 11, 0.5) == [], "a single node has no partner"


def test_the_bandwidth_does_not_depend_on_the_number_of_ranks():
    assert script.bus_bandwidth(1_000_000_000, 2, 1.0) == pytest.approx(8)
    assert script.bus_bandwidth(1_000_000_000, 16, 2 * 15 / 16) == pytest.approx(8)
