"""Parts of targets that take too long for each change. `make rotation` runs them in turn."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from chaos.catalogue import HEALTH_FAULTS, JOB_FAULTS

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIOS = sorted(path.parent.name for path in (REPOSITORY / "extensions" / "molecule").glob("*/molecule.yml"))
# The names of the faults that each run of the chaos suite injects: 4 in jobs or 28 in hosts.
JOBS, HEALTH = [fault.name for fault in JOB_FAULTS], [fault.name for fault in HEALTH_FAULTS]
FAULTS = [
    *(JOBS[start : start + 4] for start in range(0, len(JOBS), 4)),
    *(HEALTH[start : start + 28] for start in range(0, len(HEALTH), 28)),
]

pytestmark = [pytest.mark.rotation, pytest.mark.each_case]


def make(target: str, *variables: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    command = ["make", target, *variables]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=3000
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("target", ["docs", "galaxy"])
def test_target(target):
    make(target)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_molecule(scenario):
    make("molecule", f"SCENARIO={scenario}")


@pytest.mark.parametrize("names", FAULTS, ids=lambda names: names[0])
def test_chaos(names):
    make("chaos", "SEED=12", f"CHAOS_ARGS=--only '{'|'.join(names)}'")
