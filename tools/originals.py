"""Writes the tables of docs/originals.md from tests/originals/capabilities.yml.

`python tools/originals.py` writes the counts by verdict and a table for each of the four former systems, and prints the name of the page if
it has changed. tests/unit/test_originals.py checks the entries.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from generated_tables import with_tables, write  # noqa: E402
from lanes import lane  # noqa: E402

DOCS = ROOT / "docs"
PAGE = DOCS / "originals.md"
CAPABILITIES = ROOT / "tests" / "originals" / "capabilities.yml"
VERDICTS = ("same", "better", "partial", "missing", "impossible")


def systems() -> list[dict[str, Any]]:
    """Return the four systems with their capabilities."""
    return list(yaml.safe_load(CAPABILITIES.read_text()))


def title(page: str) -> str:
    """Return the heading of a page, given its path relative to docs/."""
    found = re.match(r"# (.+)\n", (DOCS / page).read_text())
    if not found:
        raise ValueError(f"docs/{page} does not begin with a heading.")
    return found[1]


def link(place: str) -> str:
    """Return a Markdown link to a page, or to a section of it."""
    return f"[{title(place.partition('#')[0])}]({place})"


def how(capability: dict[str, Any]) -> str:
    """Return the sentences about a capability, with a link to its page before the last full stop."""
    text: str = capability["how"]
    return f"{text.removesuffix('.')} ({link(capability['docs'])})." if "docs" in capability else text


def proof(capability: dict[str, Any]) -> str:
    """Return links to the tests of a capability and when each test runs, or the reason why it has none."""
    return ", ".join(map(proven, capability.get("tests", []))) or capability.get("untestable", "")


def proven(test: str) -> str:
    """Return a link to a test, with its part or `rotation` if not each run of `make test` runs it."""
    path, function = test.split("::")
    when = lane(test)
    return f"[`{function}`](../{path})" + ("" if when == "each run" else f" ({when})")


def counts(described: list[dict[str, Any]]) -> str:
    """Return a table with the number of capabilities for each verdict."""
    rows = {system["system"]: Counter(each["verdict"] for each in system["capabilities"]) for system in described}
    rows["all"] = sum(rows.values(), Counter())
    lines = "".join(f"| {name} | {' | '.join(str(row[verdict]) for verdict in VERDICTS)} | {row.total()} |\n" for name, row in rows.items())
    return f"| system | {' | '.join(VERDICTS)} | all |\n|---|{'---|' * (len(VERDICTS) + 1)}\n{lines}"


def section(system: dict[str, Any]) -> str:
    """Return the table of a system, with a link to its guide."""
    guide = f"Guide: {link(system['guide'])}.\n\n" if "guide" in system else ""
    rows = "".join(
        f"| {each['id']} | {each['capability']} | {each['verdict']} | {how(each)} | {proof(each)} |\n" for each in system["capabilities"]
    )
    return f"\n## {system['system']}\n\n{guide}| id | capability | verdict | how | tests |\n|---|---|---|---|---|\n{rows}"


def page() -> str:
    """Return the page with current tables."""
    described = systems()
    return with_tables(PAGE, "originals", {"tables": counts(described) + "".join(map(section, described))})


if __name__ == "__main__":
    write(PAGE, page())
