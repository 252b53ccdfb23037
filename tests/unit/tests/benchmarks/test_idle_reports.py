"""The benchmark of idle nodes replaces what their program and AWS's function see, so it must change with both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "idle_reports.py"


@pytest.mark.parametrize(("day", "kind"), [("one process trains, waits without spinning 0", "work"), ("nothing 0", "idleness")])
def test_the_benchmark_of_idle_nodes_judges_days(day, kind):
    done = subprocess.run([sys.executable, str(SCRIPT), "1", day], capture_output=True, text=True, check=True)
    assert f"days of {kind} that metrics show, judged wrongly: 0" in done.stdout
