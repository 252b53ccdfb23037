"""Tests that `make release` refuses what would spoil a release, and that a dry run changes nothing.

make runs a recipe that contains $(MAKE) in a dry run, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ("tools/debian_packages.sh", "requirements/runtime.txt", "requirements/test.txt", "extensions/local_cloud/pyproject.toml")
CHANGELOG = "releases:\n  0.2.0:\n    fragments:\n    - 0002.yml\n"


@pytest.fixture
def checkout(tmp_path):
    """A checkout in which 0.2.0 is in the changelog and 0.3.0 has a tag. 0.3.0 to 0.5.0 have a summary."""
    for name in ("Makefile", "galaxy.yml"):
        shutil.copy(ROOT / name, tmp_path)
    fragments = tmp_path / "changelogs" / "fragments"
    fragments.mkdir(parents=True)
    (fragments.parent / "changelog.yaml").write_text(CHANGELOG)
    for version in ("0.2.0", "0.3.0", "0.5.0"):
        (fragments / f"release-{version}.yml").write_text("release_summary: Better.\n")
    (tmp_path / "tests").mkdir()
    for name in ("part.txt", "parts.yml"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    for name in REQUIREMENTS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=All")
    git(tmp_path, "tag", "v0.3.0")
    return tmp_path


def git(folder, *arguments):
    command = ["git", "-c", "user.name=x", "-c", "user.email=x", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout


def state(folder):
    return git(folder, "status", "--porcelain", "--ignored"), git(folder, "log", "--all", "--decorate", "--format=%H %D")


def make(folder, *arguments):
    """Run make without installing the requirements, and without the settings of a make that runs these tests."""
    command = ["make", "--assume-old=test-setup", *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("", "VERSION: specify a version such as 0.2.0."),
        ("0.3", "VERSION: specify a version such as 0.2.0."),
        ("0.2.0", "VERSION: 0.2.0 is released. Specify a new version."),
        ("0.3.0", "VERSION: 0.3.0 is released. Specify a new version."),
        ("0.4.0", "changelogs/fragments/release-0.4.0.yml: missing. Write the release_summary of the release in this file."),
        ("0.5.0", "The checkout has changes that are not committed. Commit or remove them."),
    ],
)
def test_a_release_is_refused(checkout, version, reason):
    if version == "0.5.0":
        (checkout / "galaxy.yml").write_text("version: 0.4.0\n")
    before = state(checkout)
    done = make(checkout, "release", f"VERSION={version}")
    assert (done.returncode, done.stdout.splitlines()[0]) == (2, reason)
    assert state(checkout) == before


@pytest.mark.parametrize(("target", "shown"), [("release", "git tag"), ("test", "python tests/parts.py")])
def test_a_dry_run_changes_nothing(checkout, target, shown):
    before = state(checkout)
    done = make(checkout, "--dry-run", target, "VERSION=0.5.0")
    assert done.returncode == 0, done.stdout
    assert shown in done.stdout
    assert state(checkout) == before
