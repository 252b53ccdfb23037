"""The seeded schedule: which faults a run injects, and in which order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Fault = TypeVar("Fault")


def schedule(faults: Sequence[Fault], count: int, seed: int) -> list[Fault]:
    """Return `count` faults. Every fault occurs once before any fault occurs again."""
    generator, found = random.Random(seed), []
    while len(found) < count:
        found += generator.sample(faults, min(len(faults), count - len(found)))
    return found
