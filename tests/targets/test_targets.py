"""Parts of targets that take too long for each change. `make rotation` runs them in turn."""

from __future__ import annotations

import os
import subprocess
import tomllib
import zlib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from chaos.catalogue import HEALTH_FAULTS, JOB_FAULTS

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIOS = sorted(path.parent.name for path in (REPOSITORY / "extensions" / "molecule").glob("*/molecule.yml"))

pytestmark = [pytest.mark.rotation, pytest.mark.each_case]


def pure_files() -> list[str]:
    """Return the last two parts of the import paths of the files that mutation tests cover."""
    options = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["mutmut"]
    paths = [path for path in sorted((REPOSITORY / "plugins").rglob("*.py")) if path.stem != "__init__"]
    only, never = (
        {path for path in paths for pattern in options[key] if fnmatch(str(path), pattern)} for key in ("only_mutate", "do_not_mutate")
    )
    return [f"{path.parent.name}.{path.stem}" for path in paths if path in only - never]


def groups(names: list[str], size: int) -> list[list[str]]:
    """Split the names into cases of this size."""
    return [names[start : start + size] for start in range(0, len(names), size)]


# Each run of the chaos suite injects 4 faults in jobs or 28 in hosts.
FAULTS = [*groups([fault.name for fault in JOB_FAULTS], 4), *groups([fault.name for fault in HEALTH_FAULTS], 28)]
# mutmut measures for a minute which tests cover what before it tests any file. Each file keeps its group if other files come or go.
PURE = [[name for name in pure_files() if zlib.crc32(name.encode()) % 25 == number] for number in range(25)]
CASES = [pytest.param(names, id=f"group{number}") for number, names in enumerate(PURE) if names]


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


# Three files for each case, because the measurement of which tests cover what takes a minute.
@pytest.mark.parametrize("names", CASES)
def test_mutation(names):
    make("mutation", f"FILES={' '.join(names)}")
