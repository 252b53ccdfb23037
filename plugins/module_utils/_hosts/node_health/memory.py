# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks the available memory of the host."""

from __future__ import annotations

from ..._common.node_health.check import MONITOR, CheckedNode, Problem

AVAILABLE_MEMORY_SHARE = 0.05


def read_memory(_node: CheckedNode) -> dict[str, int]:
    """Return the numbers in /proc/meminfo, in kibibytes, keyed by name."""
    with open("/proc/meminfo", encoding="ascii") as file:
        lines = [line.split() for line in file]
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1}


def decide_memory(memory: dict[str, int], _node: CheckedNode) -> list[Problem]:
    total, available = memory["MemTotal"], memory["MemAvailable"]
    if available >= total * AVAILABLE_MEMORY_SHARE:
        return []
    return [(MONITOR, f"memory: {available >> 10} of {total >> 10} MiB are available. The kernel may kill processes.")]
