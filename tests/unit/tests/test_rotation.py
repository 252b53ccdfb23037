from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import rotation

TESTS = Path(__file__).parents[2]
FILES = {
    "test_a.py": """
import os, pytest
def check(name):
    print("ran " + name)
    assert name != os.environ["BAD"]
@pytest.mark.parametrize("n", range(3))
def test_cases(n): check(f"case{n}")
def test_one(): check("one")
""",
    "test_b.py": """
import pytest
from test_a import check
@pytest.mark.each_case
@pytest.mark.parametrize("n", ["x", "y y"])
def test_pages(n): check(n)
def test_two(): check("two")
""",
    "pytest.ini": "[pytest]\nmarkers =\n  each_case\n  whole_file\n",
}


@pytest.fixture
def queue(tmp_path):
    """An empty queue beside two files with four tests."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "queue").touch()
    return tmp_path / "queue"


def run(queue, seconds=0, bad=""):
    """Run the next slice, and return the names of what has run."""
    options = ["-s", "--tb=no", "-p", "no:cacheprovider", "-p", "rotation", "--rotation", "queue", f"--seconds={seconds}"]
    environment = {"PYTHONPATH": f"{TESTS}:.", "BAD": bad}
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=queue.parent, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == bool(bad), done.stdout + done.stderr
    return [line.rpartition("ran ")[2].strip(".F") for line in done.stdout.splitlines() if "ran " in line and "tests ran" not in line]


def test_tests_take_turns_and_cases_of_a_test_do_so_in_theirs(queue):
    assert [run(queue) for _each in range(6)] == [["case0"], ["one"], ["x"], ["y y"], ["two"], ["case1"]]
    assert queue.read_text().splitlines()[-1] == "  1 test_a.py::test_cases[1]"
    assert run(queue, 2) == ["one", "x"]
    assert run(queue, 100) == ["y y", "two", "case2", "one", "x"]
    assert [run(queue, 100)[2] for _each in range(2)] == ["case0", "case1"]


def test_tests_of_a_file_that_depend_on_each_other_run_together(queue):
    before = FILES["test_b.py"].replace("import pytest\n", "import pytest\npytestmark = pytest.mark.whole_file\n", 1)
    (queue.parent / "test_b.py").write_text(before)
    assert [run(queue) for _each in range(4)] == [["case0"], ["one"], ["x", "y y", "two"], ["case1"]]
    assert run(queue, bad="one") == ["one"]
    assert run(queue) == ["one"]
    assert run(queue, bad="two") == ["x", "y y", "two"]
    assert run(queue, bad="x") == ["x", "y y", "two"], "all of it again"
    assert queue.read_text().splitlines()[0].strip() == "1 test_b.py"


def test_recorded_durations_say_how_many_tests_run(queue):
    queue.write_text(" 50 test_b.py::test_two\n 70 test_a.py::test_one\n  1 test_a.py::test_cases\n200 test_gone.py::test_gone\n")
    for name in ("x", "y y"):
        assert run(queue) == [name], "what is new comes first"
    assert run(queue, 120) == ["two", "one"]
    others = [line for line in queue.read_text().splitlines(keepends=True) if "two" not in line]
    queue.write_text("".join(["200 test_b.py::test_two\n", *others]))
    assert run(queue, 120) == ["two"]


def test_the_next_run_begins_with_the_test_that_failed(queue):
    assert run(queue, 1000, bad="one") == ["case0", "one", "x", "y y", "two"]
    assert run(queue) == ["one"]
    assert run(queue) == ["case1"]


def test_the_contributing_guide_says_how_many_runs_run_all():
    """The guide is kept roughly true, because durations differ between machines."""
    queue = rotation.read_queue(TESTS / "rotation.txt")
    told = re.search(
        r"about (\d+) runs run all.* with `ROTATION_SECONDS=(\d+)`, about (\d+) runs do",
        (TESTS.parent / "CONTRIBUTING.md").read_text(),
        re.DOTALL,
    )
    for seconds, runs in ((120, told[1]), (int(told[2]), told[3])):
        assert 2 / 3 < int(runs) / len(list(rotation.slices(queue, seconds))) < 3 / 2
