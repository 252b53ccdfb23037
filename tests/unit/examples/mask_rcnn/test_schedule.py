from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("ranks", "epoch", "warm_up", "rate"),
    [
        (1, 0, 2, 0.001),
        (1, 5, 2, 0.001),
        (2, 0, 2, 0.001),
        (2, 1, 2, 0.0015),
        (2, 2, 2, 0.002),
        (2, 5, 2, 0.002),
        (2, 0, 0, 0.002),
        (64, 8, 2, 0.064),
    ],
)
def test_the_learning_rate_follows_the_number_of_ranks_after_a_warm_up(example, ranks, epoch, warm_up, rate):
    assert example("schedule").learning_rate(0.001, ranks, epoch, warm_up) == pytest.approx(rate)
