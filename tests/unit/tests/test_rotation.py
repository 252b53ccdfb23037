from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path):
    """Run the next tests of two files with six tests each, and return their names in short: a0 to b5."""
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(
            "import pytest, os\n@pytest.mark.parametrize('n', range(6))\n"
            f"def test(n):\n    print('ran {name}%d' % n)\n    assert os.environ.get('BAD') != '{name}%d' % n\n"
        )
    (tmp_path / "last").touch()

    def run(seconds, bad=""):
        command = [sys.executable, "-m", "pytest", "-s", "--tb=no", "-p", "rotation", "--rotation", "last", "--seconds", seconds]
        done = subprocess.run(
            command, cwd=tmp_path, env={"PYTHONPATH": str(TESTS), "BAD": bad}, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == bool(bad), done.stdout + done.stderr
        return [line.rpartition("ran ")[2].strip(".F") for line in done.stdout.splitlines() if "ran " in line and "tests ran" not in line]

    return run


def test_runs_take_turns_and_together_run_all_tests(run):
    assert [*run("0"), *run("0")] == ["a0", "a1"]
    assert run("1000") == ["a2", "a3", "a4", "b0", "b1", "b2", "b3", "b4", "a5", "b5", "a0", "a1"]


def test_the_next_run_begins_with_the_test_that_failed(run):
    assert len(run("1000", bad="a3")) == 12
    assert run("0") == ["a3"]
