"""Writes the tables of docs/health.md from the table of health checks and the table of Xid errors.

`python tools/health_checks.py` updates the page.
"""

from __future__ import annotations

from pathlib import Path

from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import (
    AFTER_FAILURE,
    BEFORE_JOB,
    BOOT,
    ON_DEMAND,
    PERIODIC,
    Check,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import xid
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.registry import CHECKS
from generated_tables import with_tables, write

PAGE = Path(__file__).resolve().parents[1] / "docs" / "health.md"


def check_table() -> str:
    """Return the table of checks."""
    rows = ["| check | finds | severity | limit | runs |", "|---|---|---|---|---|"]
    return "".join(f"{row}\n" for row in (*rows, *map(_row, CHECKS)))


def _row(check: Check) -> str:
    severities = ", ".join(f"`{each}`" for each in check.severities)
    limit = f"{check.limit:g} s" if check.read else ""
    return f"| `{check.name}` | {check.description} | {severities} | {limit} | {runs(check)} |"


def runs(check: Check) -> str:
    """Return when a check runs, besides on demand."""
    found = ["before a job"] if BEFORE_JOB in check.contexts else []
    found += ["after a failure, after a boot"] if {AFTER_FAILURE, BOOT} <= {*check.contexts} else []
    found += ["while jobs run"] if PERIODIC in check.contexts else []
    return ", ".join(found) if ON_DEMAND in check.contexts or not found else f"only {', '.join(found)}"


def xid_table() -> str:
    """Return the table of Xid errors. Codes with the same meaning share a row."""
    rows: dict[xid.Xid, list[int]] = {}
    for code, meaning in sorted(xid.XIDS.items()):
        rows.setdefault(meaning, []).append(code)
    lines = ["| Xid | meaning | severity |", "|---|---|---|"]
    lines += [f"| {ranges(codes)} | {found.meaning} | `{found.severity}` |" for found, codes in rows.items()]
    return "".join(f"{line}\n" for line in lines)


def ranges(codes: list[int]) -> str:
    """Return sorted numbers as text, such as `39 to 41, 70`."""
    groups: list[list[int]] = []
    for code in codes:
        if groups and code == groups[-1][-1] + 1:
            groups[-1].append(code)
        else:
            groups.append([code])
    return ", ".join(f"{group[0]} to {group[-1]}" if len(group) > 2 else ", ".join(map(str, group)) for group in groups)


def page() -> str:
    """Return the text of the page with current tables."""
    return with_tables(PAGE, "health_checks", {"checks": check_table(), "Xid errors": xid_table()})


if __name__ == "__main__":
    write(PAGE, page())
