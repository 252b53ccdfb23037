from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import parts
import pytest
import yaml

TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("hosts/test_ssh_trust.py", "roles/ssh_trust/tasks/main.yml", True),
        ("hosts/test_ssh_trust.py", "roles/ssh_config/tasks/main.yml", False),
        ("integration/test_emr_nodes.py", "plugins/module_utils/_aws/emr/nodes.py", True),
        ("integration/test_emr_nodes.py", "plugins/module_utils/_aws/emr/steps.py", False),
        ("end_to_end/test_train.py", "playbooks/train.yml", True),
        ("end_to_end/test_train.py", "roles/training_job/tasks/main.yml", False),
        ("hosts/test_export.py", "tests/hosts/test_export.py", True),
    ],
)
def test_a_test_file_belongs_to_what_its_name_says(name, path, expected):
    assert parts.tests(name, path) is expected


def test_each_file_of_a_part_exists_and_is_in_no_other_part():
    names = [name for part in yaml.safe_load((TESTS / "parts.yml").read_text()).values() for name in part]
    assert len(names) == len(set(names))
    assert all((TESTS / name).is_file() for name in names)
    assert int((TESTS / "part.txt").read_text()) in yaml.safe_load((TESTS / "parts.yml").read_text())


def git(folder, *arguments):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x", *arguments], cwd=folder, check=True, capture_output=True)


def test_in_ci_a_run_fails_if_the_number_of_the_part_stands_still(tmp_path):
    def passed(checkout, *number, ci="true"):
        command = [sys.executable, "tests/parts.py", *number]
        done = subprocess.run(command, cwd=checkout, env={"CI": ci}, capture_output=True, text=True, check=False, timeout=60)
        assert bool(done.returncode) == bool(ci and "have not changed" in done.stdout)
        return done.stdout.partition(":")[2].strip() if "have not changed" in done.stdout else (checkout / "tests" / "part.txt").read_text()

    def commit(name):
        (full / name).touch()
        git(full, "add", ".")
        git(full, "commit", "--quiet", "--message=.")

    full = tmp_path / "full"
    (full / "tests").mkdir(parents=True)
    shutil.copy(TESTS / "parts.py", full / "tests")
    (full / "tests" / "parts.yml").write_text("1: []\n2: []\n3: []\n")
    (full / "tests" / "part.txt").write_text("2\n")
    assert [passed(full), passed(full), passed(full, "2")] == ["3\n", "1\n", "3\n"], "without a repository"
    git(full, "init", "--quiet", "--initial-branch=main")
    commit("moved")
    git(full, "switch", "--quiet", "--create=other")
    commit("other1")
    commit("other2")
    git(full, "switch", "--quiet", "main")
    git(full, "merge", "--quiet", "--no-ff", "--message=.", "other")
    commit("one")
    assert passed(full) == "1\n", "two commits on the main line"
    git(full, "restore", ".")
    commit("two")
    assert passed(full) == "3 commits have not changed this file, so all of them ran the same of 3 parts. Commit it with 1."
    passed(full, ci="")
    git(full, "restore", ".")
    for depth, stands_still in (("1", False), ("3", False), ("4", True)):
        clone = tmp_path / depth
        git(tmp_path, "clone", "--quiet", f"--depth={depth}", f"file://{full}", str(clone))
        assert ("have" in passed(clone)) == stands_still, depth
    (full / "tests" / "part.txt").write_text("1\n")
    commit("moved again")
    assert passed(full) == "2\n"


def test_other_parts_are_left_out_unless_what_they_test_has_changed(tmp_path):
    def run(*options):
        command = [sys.executable, "-m", "pytest", "-v", "--rootdir=.", "-p", "parts", *options, "tests"]
        done = subprocess.run(
            command, cwd=tmp_path, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True, timeout=300
        )
        return {name for name in ("always", "one", "two", "three") if f"test_{name}.py::" in done.stdout}

    folder = tmp_path / "tests"
    folder.mkdir()
    shutil.copy(TESTS / "parts.py", folder)
    for name in ("always", "one", "two", "three"):
        (folder / f"test_{name}.py").write_text("def test():\n    pass\n")
    (folder / "parts.yml").write_text("1: [test_one.py]\n2: [test_two.py]\n3: [test_three.py]\n")
    assert run("--part=1") == {"always", "one"}, "without a repository"
    (folder / "test_always.py").rename(folder / "always.py")
    (folder / "test_one.py").rename(folder / "one.py")
    assert run("--part=1") == set(), "no file, and no failure"
    (folder / "always.py").rename(folder / "test_always.py")
    (folder / "one.py").rename(folder / "test_one.py")
    assert run() == {"always", "one", "two", "three"}
    git(tmp_path, "init", "--quiet")
    for number in "123":
        (folder / "part.txt").write_text(number)
        (tmp_path / f"{('two', 'three', 'one')[int(number) - 1]}.txt").write_text("changed")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "--message=.")
    assert run("--part=2") == {"always", "two", "one"}
    (tmp_path / "three.txt").write_text("changed again")
    assert run("--part=2") == {"always", "two", "one", "three"}
