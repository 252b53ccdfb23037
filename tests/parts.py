"""A pytest plugin that leaves out test files that take long, except those of one part and those of changed files.

`parts.yml` contains the files of each part. Files that are not in it always run. `part.txt` contains the number of the next part.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT, TESTS = Path(__file__).parents[1], Path("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", type=int, help="the part whose test files run")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.part:
        config.pluginmanager.register(Part(ROOT, config.option.part))


class Part:
    """Leaves out the files of other parts."""

    def __init__(self, root: Path, number: int) -> None:
        parts = yaml.safe_load((root / TESTS / "parts.yml").read_text(encoding="utf-8"))
        changed = _changed_since_the_previous_part(root)
        others = [name for part, names in parts.items() if part != number for name in names]
        self._name = f"Part {number} of {len(parts)}"
        self._left_out = {name for name in others if not any(tests(name, path) for path in changed)}
        self._root = root
        self._has_left_out = False

    @pytest.hookimpl
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        inside = collection_path.is_relative_to(self._root / TESTS)
        if inside and str(collection_path.relative_to(self._root / TESTS)) in self._left_out:
            self._has_left_out = True
            return True
        return None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Do not fail if all files of this run are in other parts."""
        if self._has_left_out and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_report_header(self) -> str:
        return f"{self._name}, and the files that test what has changed. Left out: {' '.join(sorted(self._left_out))}"


def tests(name: str, path: str) -> bool:
    """Return whether a test file belongs to a changed file: whether all words of its name are in the path of the changed file."""
    return set(Path(name).stem.removeprefix("test_").split("_")) <= set(re.split(r"\W|_", path))


def _changed_since_the_previous_part(root: Path) -> list[str]:
    """Return the files that differ from the last but one commit of part.txt, so that those of the last change are among them too."""

    def git(*arguments: str) -> list[str]:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False, timeout=60).stdout.split("\n")

    commits = list(filter(None, git("log", "-2", "--format=%H", "--", str(TESTS / "part.txt"))))
    return list(filter(None, git("diff", "--name-only", commits[-1]))) if commits else []
