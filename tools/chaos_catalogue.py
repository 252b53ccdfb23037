"""Writes the tables of docs/chaos.md from the catalogue of the chaos suite.

`python tools/chaos_catalogue.py` updates the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from chaos.catalogue import HEALTH_FAULTS, JOB_FAULTS, NOTICED, HealthFault, JobFault  # noqa: E402

PAGE = REPOSITORY / "docs" / "chaos.md"
END = "<!-- End of what tools/chaos_catalogue.py writes -->\n"


def start(name: str) -> str:
    return f"<!-- The {name} below are written by tools/chaos_catalogue.py -->\n"


def job_table() -> str:
    """Return the table of faults of jobs."""
    rows = [f"| fault ({len(JOB_FAULTS)}) | where | what happens | the job | attempts | noticed within |", "|---|---|---|---|---|---|"]
    return "".join(f"{row}\n" for row in (*rows, *map(_job_row, JOB_FAULTS)))


def _job_row(fault: JobFault) -> str:
    end = f"finishes, with {fault.ranks} ranks" if fault.survivable else "stops"
    attempts = f"at most {fault.attempts}" if fault.at_most else str(fault.attempts)
    limit = f"{NOTICED[fault.noticed]:g} s" if fault.noticed else ""
    return f"| `{fault.name}` | {fault.where} | {fault.description} | {end} | {attempts} | {limit} |"


def health_table() -> str:
    """Return the table of faults of hosts."""
    rows = [f"| fault ({len(HEALTH_FAULTS)}) | where | what the check sees | finding |", "|---|---|---|---|"]
    return "".join(f"{row}\n" for row in (*rows, *map(_health_row, HEALTH_FAULTS)))


def _health_row(fault: HealthFault) -> str:
    found = ", ".join(f"`{check}`: `{severity}`" for check, (severity, _message) in fault.expected.items())
    return f"| `{fault.name}` | {fault.where} | {fault.description} | {found} |"


def page() -> str:
    """Return the text of the page with current tables."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("faults of jobs", job_table()), ("faults of hosts", health_table())):
        pattern = re.escape(start(name)) + ".*?" + re.escape(END)
        text, count = re.subn(pattern, lambda _match, name=name, table=table: f"{start(name)}\n{table}\n{END}", text, flags=re.DOTALL)
        assert count == 1, f"{PAGE} has no place for the {name}"
    return text


if __name__ == "__main__":
    if PAGE.read_text(encoding="utf-8") != page():
        PAGE.write_text(page(), encoding="utf-8")
        print(PAGE)
