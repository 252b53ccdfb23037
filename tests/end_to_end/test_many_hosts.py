"""The benchmark of jobs on many hosts: what simulated hosts answer must change with what the modules return and the controller checks."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from .conftest import REPOSITORY


@pytest.mark.exhaustive
def test_a_job_starts_on_simulated_hosts_with_few_tasks_on_each():
    script = REPOSITORY / "tests" / "benchmarks" / "many_hosts.py"
    done = subprocess.run([sys.executable, str(script), "--hosts", "5", "--rounds", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 hosts, 6 tasks on each worker: " in done.stdout
    rows = {
        name: numbers.split() for name, numbers in re.findall(r"^(train\.yml|6 raw tasks|ssh HOST true) +(.*)$", done.stdout, re.MULTILINE)
    }
    connections = {name: int(numbers[3]) for name, numbers in rows.items()}
    assert connections == {"train.yml": 6, "6 raw tasks": 5, "ssh HOST true": 8}, "workers are reached through the master"
