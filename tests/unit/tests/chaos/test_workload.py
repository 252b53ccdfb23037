"""Tests of the chaos suite's training script: the properties on which the judge relies."""

from __future__ import annotations

import math

from chaos import runner, workload


def test_the_result_is_the_same_each_time_and_depends_on_ranks_only_in_the_last_digits():
    first, second, smaller = runner.undisturbed(30), runner.undisturbed(30), runner.undisturbed(30, ranks=3)
    assert first == second
    assert sorted(first.losses) == list(range(1, 31))
    assert first.losses[30] < first.losses[1] / 2
    assert all(math.isclose(smaller.losses[step], loss, rel_tol=1e-12) for step, loss in first.losses.items())


def test_a_bug_occurs_on_rank_1_only():
    assert workload.INTERVAL == 10
    assert set(workload.BUGS) >= {"value", "key", "zero", "memory", "name", "import", "exit", "stuck", "grow"}
