"""Writes the tables of docs/health.md from the table of health checks and the table of Xid errors.

`python tools/health_checks.py` updates the page.
"""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import xid
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.check import BEFORE_JOB, Check
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.registry import CHECKS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "health.md"
END = "<!-- End of what tools/health_checks.py writes -->\n"


def start(name: str) -> str:
    return f"<!-- The {name} below are written by tools/health_checks.py -->\n"


def check_table() -> str:
    """Return the table of checks."""
    rows = ["| check | finds | severity | limit | before a job |", "|---|---|---|---|---|"]
    return "".join(f"{row}\n" for row in (*rows, *map(_row, CHECKS)))


def _row(check: Check) -> str:
    severities = ", ".join(f"`{each}`" for each in check.severities)
    limit = f"{check.limit:g} s" if check.read else ""
    return f"| `{check.name}` | {check.description} | {severities} | {limit} | {'yes' if BEFORE_JOB in check.contexts else ''} |"


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
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("checks", check_table()), ("Xid errors", xid_table())):
        pattern = re.escape(start(name)) + ".*?" + re.escape(END)
        text, count = re.subn(pattern, lambda _match, name=name, table=table: f"{start(name)}\n{table}\n{END}", text, flags=re.DOTALL)
        assert count == 1, f"{PAGE} does not contain the markers of the table of {name}"
    return text


if __name__ == "__main__":
    if PAGE.read_text(encoding="utf-8") != page():
        PAGE.write_text(page(), encoding="utf-8")
        print(PAGE)
