"""Writes the tables of docs/chaos.md from the catalogue of the chaos suite.

`python tools/chaos_catalogue.py` updates the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from chaos.catalogue import HEALTH_FAULTS, JOB_FAULTS, NOTICED, HealthFault, JobFault  # noqa: E402
from generated_tables import with_tables, write  # noqa: E402

PAGE = REPOSITORY / "docs" / "chaos.md"


def job_table() -> str:
    """Return the table of faults that affect jobs."""
    rows = [f"| fault ({len(JOB_FAULTS)}) | where | what happens | the job | attempts | noticed within |", "|---|---|---|---|---|---|"]
    return "".join(f"{row}\n" for row in (*rows, *map(_job_row, JOB_FAULTS)))


def _job_row(fault: JobFault) -> str:
    end = f"finishes, with {fault.ranks} ranks{', one of them on the spare' if fault.replaced else ''}" if fault.survivable else "stops"
    attempts = f"at most {fault.attempts}" if fault.at_most else str(fault.attempts)
    limit = f"{NOTICED[fault.noticed]:g} s" if fault.noticed else ""
    return f"| `{fault.name}` | {fault.where} | {fault.description} | {end} | {attempts} | {limit} |"


def health_table() -> str:
    """Return the table of faults that affect hosts."""
    rows = [f"| fault ({len(HEALTH_FAULTS)}) | where | what the check sees | finding |", "|---|---|---|---|"]
    return "".join(f"{row}\n" for row in (*rows, *map(_health_row, HEALTH_FAULTS)))


def _health_row(fault: HealthFault) -> str:
    found = ", ".join(f"`{check}`: `{severity}`" for check, (severity, _message) in fault.expected.items())
    return f"| `{fault.name}` | {fault.where} | {fault.description} | {found} |"


def page() -> str:
    """Return the text of the page with current tables."""
    return with_tables(PAGE, "chaos_catalogue", {"faults of jobs": job_table(), "faults of hosts": health_table()})


if __name__ == "__main__":
    write(PAGE, page())
