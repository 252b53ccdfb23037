"""Tests of the command line and the ID of an attempt that launchers have in common."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Program

from .conftest import program


def test_each_attempt_has_its_own_id():
    job = Program("digits", "python", "train.py")
    assert [job._replace(attempt=attempt).run for attempt in (1, 2, 10)] == [job.job, f"{job.job}.2", f"{job.job}.10"]


@pytest.mark.parametrize(
    ("end", "status", "error", "leaves"),
    [
        ("", 0, "", True),
        ("sys.exit()", 0, "", True),
        ("sys.exit(3)", 3, "", False),
        ("sys.exit('no data')", 1, "no data", False),
        ("raise ValueError('bad data')", 1, "ValueError: bad data", False),
    ],
)
def test_a_script_that_fails_need_not_pass_where_processes_wait_for_each_other(tmp_path, end, status, error, leaves):
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    script = tmp_path / "train.py"
    script.write_text(
        f"""import atexit, sys
import beside
atexit.register(print, "leaves")
class Waits:
    def __del__(self):
        print("waits")
def main():
    store = Waits()
    print(__name__, __file__, sys.argv, beside.NAME)
    {end or "pass"}
main()
"""
    )
    command = program(python=sys.executable, script=str(script), arguments=["--epochs", "two words"]).abrupt_argv
    result = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == status
    assert result.stdout.splitlines()[0] == f"__main__ {script} {[str(script), '--epochs', 'two words']} beside"
    assert ("waits" in result.stdout, "leaves" in result.stdout) == (leaves, leaves)
    assert error in result.stderr
    assert result.stderr.count(error or "Traceback") == bool(error)
