# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The names and numbers of nodes. Performs no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MASTER = "master"
WORKERS = "workers"
NODE_TYPES = {MASTER: "Master", WORKERS: "Worker"}
MASTER_NUMBER = 1  # the master also takes part in training, as worker 1
NUMBER_TAG = "deeplearning:number"


def group_name(cluster: str, group: str) -> str:
    return f"{cluster}-{group}"


def node_name(cluster: str, group: str, number: int) -> str:
    return f"{cluster}-{MASTER}" if group == MASTER else f"{cluster}-worker{number}"


def numbers(group: str, worker_count: int) -> tuple[int, ...]:
    """Return the numbers of a group's nodes. The master has number 1, and the workers are numbered from 2."""
    return (MASTER_NUMBER,) if group == MASTER else tuple(range(MASTER_NUMBER + 1, MASTER_NUMBER + 1 + worker_count))


def assign_numbers(group: str, numbered: Mapping[str, int], unnumbered: Iterable[str], size: int) -> dict[str, int]:
    """Return the numbers of all instances of a group, keyed by instance ID. An instance that has a number keeps this number.

    The other instances get the lowest free numbers in the given order. Numbers can exceed `size` while surplus nodes are terminating.
    """
    taken = set(numbered.values())
    unnumbered = list(unnumbered)
    candidates = numbers(group, size + len(taken) + len(unnumbered)) if group == WORKERS else range(MASTER_NUMBER, MASTER_NUMBER + 1)
    free = iter([number for number in candidates if number not in taken])
    return {**numbered, **dict(zip(unnumbered, free))}
