"""The learning rate of distributed training: the linear scaling rule with a warm-up, as in https://arxiv.org/abs/1706.02677.

With more ranks, each step averages the gradients of more images, so the rate is proportional to the number of ranks. The first steps use a
lower rate, because a high rate prevents a new model from learning.
"""

from __future__ import annotations


def learning_rate(base: float, ranks: int, epoch: float, warm_up: float) -> float:
    """Return the learning rate for `ranks` processes, after `epoch` epochs.

    During the first `warm_up` epochs, the rate increases linearly from `base`, which is the rate for one process, to `base * ranks`.
    """
    share = min(epoch / warm_up, 1.0) if warm_up > 0 else 1.0
    return base * (1 + share * (ranks - 1))
