"""A pytest plugin that leaves out test files that take long, except those of one part and those of changed files.

`parts.yml` contains the files of each part. Files that are not in it always run. `part.txt` contains the number of the next part. At the
end of `make test`, `python tests/parts.py` writes it. In CI, it fails if as many commits as there are parts have not changed the number.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT, TESTS = Path(__file__).resolve().parents[1], Path("tests")
POINTER = TESTS / "part.txt"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", type=int, help="the part whose test files run")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.part:
        config.pluginmanager.register(Part(ROOT, config.option.part))


class Part:
    """Leaves out the files of other parts."""

    def __init__(self, root: Path, number: int) -> None:
        parts = read_parts(root)
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


def read_parts(root: Path) -> dict[int, list[str]]:
    """Return the files of each part."""
    return dict(yaml.safe_load((root / TESTS / "parts.yml").read_text(encoding="utf-8")))


def go_on(root: Path, passed: int) -> str | None:
    """Write the number of the next part. Return what is wrong if this number has not changed for too many commits."""
    count, waited = len(read_parts(root)), _commits_since_the_last_move(root)
    following = passed % count + 1
    (root / POINTER).write_text(f"{following}\n", encoding="utf-8")
    if waited < count:
        return None
    return (
        f"{POINTER}: {waited} commits have not changed this file, so all of them ran the same of {count} parts. Commit it with {following}."
    )


def _changed_since_the_previous_part(root: Path) -> list[str]:
    """Return the files that differ from the last but one commit of part.txt, so that those of the last change are among them too."""
    commits = _git(root, "log", "-2", "--format=%H", "--", str(POINTER))
    return _git(root, "diff", "--name-only", commits[-1]) if commits else []


def _commits_since_the_last_move(root: Path) -> int:
    """Return how many commits follow the last one of part.txt, merges as one. Without a repository, this is 0.

    In a shallow clone, the oldest commit has all files, so the number is at most too small.
    """
    last = _git(root, "log", "-1", "--first-parent", "--format=%H", "--", str(POINTER))
    return int(_git(root, "rev-list", "--count", "--first-parent", f"{last[0]}..HEAD")[0]) if last else 0


def _git(root: Path, *arguments: str) -> list[str]:
    """Return the lines that git prints, none if it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False, timeout=60)
    return list(filter(None, done.stdout.split("\n")))


if __name__ == "__main__":
    wrong = go_on(ROOT, int(sys.argv[1] if sys.argv[1:] else (ROOT / POINTER).read_text(encoding="utf-8")))
    print(wrong or f"Commit {POINTER} with the change: the next run of make test goes on from there.")
    sys.exit(bool(wrong and os.environ.get("CI")))
