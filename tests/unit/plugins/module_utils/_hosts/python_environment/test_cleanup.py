"""Tests that check which environment builds are deleted."""

from __future__ import annotations

import os
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment import cleanup, record

DAY = 86400.0


@pytest.fixture
def folder(tmp_path):
    """A folder with three builds that are 40 days old and a fourth one that is 10 days old. The link `current` points to the third
    build.
    """
    folder = tmp_path / "environments" / "bert" / "x86_64-python3.10"
    for number, days in ((1, 40), (2, 40), (3, 40), (4, 10)):
        digest, moment = str(number) * 12, time.time() - days * DAY
        (folder / digest / "bin").mkdir(parents=True)
        (folder / digest / "bin" / "python").symlink_to("/usr/bin/python3")
        (folder / f"{digest}.json").write_text("{}")
        for path in (folder / digest, folder / f"{digest}.json"):
            os.utime(path, (moment, moment))
    (folder / "current").symlink_to("3" * 12)
    return folder


def run(folder, check_mode=False, pythons=(), days=30):
    return cleanup.clean_up({"directory": str(folder.parents[1]), "pythons": list(pythons), "days": days}, check_mode)


def test_old_builds_that_nothing_uses_go(folder):
    used = [str(folder / ("2" * 12) / "bin" / "python"), "/opt/pytorch/bin/python"]
    first = str(folder / ("1" * 12))
    assert run(folder, True, used) == [first]
    assert os.path.isdir(first)
    assert run(folder, False, used) == [first]
    assert sorted(path.name for path in folder.iterdir()) == [*(n * 12 + s for n in "234" for s in ("", ".json")), "current"]
    assert run(folder, False, used) == []


def test_a_python_through_the_link_keeps_the_build(folder):
    (folder / "current").unlink()
    (folder / "mine").symlink_to("1" * 12)
    run(folder, pythons=[str(folder / "mine" / "bin" / "python")], days=0)
    assert sorted(path.name for path in folder.iterdir()) == ["1" * 12, "1" * 12 + ".json", "mine"]


def test_a_build_in_progress_and_other_files_stay(folder):
    (folder / "notes").mkdir()
    (folder.parents[1] / "mine").mkdir()
    with record.exclusive(str(folder / ("1" * 12 + ".json")), 0):
        assert run(folder) == [str(folder / ("2" * 12))]
    assert (folder / "notes").is_dir()
    assert (folder.parents[1] / "mine").is_dir()
    assert run(folder) == [str(folder / ("1" * 12))]


def test_without_environments_there_is_nothing_to_do(tmp_path):
    assert cleanup.clean_up({"directory": str(tmp_path / "none"), "pythons": [], "days": 0}, False) == []
