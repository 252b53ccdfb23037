"""How often metrics of CloudWatch alone would end nodes in the middle of their work, or never: `python tests/benchmarks/idle_metrics.py`.

The traces (`utilisation.py`) were made from published figures without knowledge of the limits below. docs/cost.md quotes the result.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from utilisation import Day, days

PERIODS = 6  # 30 minutes
LATE = 1  # periods until a datapoint can be read
# What idle nodes stay below: processors, as a number and as a share of all, bytes per period, percent of the power of a GPU, and points
# above its lowest value.
PROCESSORS, SHARE, NETWORK, POWER, POINTS = 0.15, 0.003, 5_000_000, 27.0, 3.0


def limit(metric: str, vcpus: int, values: Sequence[float]) -> float:
    if metric == "CPUUtilization":
        return 100 * max(PROCESSORS / vcpus, SHARE)
    return min(POWER, min(values, default=0.0) + POINTS) if metric.startswith("GPU") else NETWORK


def idle_periods(day: Day) -> Iterator[int]:
    """Yield the periods in which the newest datapoints of all metrics of all nodes are quiet."""
    for now in range(PERIODS + LATE, len(day.busy) + 1):
        for node in day.nodes:
            known = {metric: [value for value in values[: now - LATE] if value is not None] for metric, values in node.items()}
            if any(len(values) < PERIODS or max(values[-PERIODS:]) > limit(metric, day.vcpus, values) for metric, values in known.items()):
                break
        else:
            yield now


def is_false(day: Day, now: int, found: set[int]) -> bool:
    """Return whether work runs, unless the nodes had already been ended before it began."""
    if not day.busy[now - 1]:
        return False
    began = next((period for period in range(now - 1, 0, -1) if not day.busy[period - 1]), 0)
    before = next((period for period in range(began - 1, 0, -1) if day.busy[period - 1]), 0)
    return now - began > 2 or not found & set(range(before + 1, began + 1))


def main(seed: int) -> None:
    count: Counter[str] = Counter()
    for day in days(seed):
        found = set(idle_periods(day))
        kind = f"{'work' if any(day.busy) else 'idleness'} that metrics {'show' if day.visible else 'hide'}"
        wrong = any(is_false(day, now, found) for now in found) if any(day.busy) else not found
        count[f"days of {kind}"] += 1
        count[f"days of {kind}, judged wrongly"] += wrong
    print("\n".join(f"{name}: {number}" for name, number in sorted(count.items())))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
