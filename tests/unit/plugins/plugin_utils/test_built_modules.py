"""Later runs use the modules that Ansible has built, as long as their files are the same and nobody else could have written them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible import constants
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import built_modules

FILE = "ansible_collections.deeplearning.cluster.plugins.modules.sge_info-ZIP_DEFLATED-none"


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """The folder for modules."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(built_modules, "digest", lambda: "digest")
    return tmp_path / "cache" / "deeplearning.cluster" / "modules" / "digest"


@pytest.fixture
def is_built(tmp_path, monkeypatch):
    """Simulate a run of Ansible, and return whether it has built the module."""

    def run(name: str) -> bool:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(folder))
        with built_modules.kept_module("deeplearning.cluster.sge_info"):
            there = (folder / "ansiballz_cache" / FILE).exists()
            if not there:
                (folder / "ansiballz_cache" / FILE).write_text(name)
        return not there

    return run


def test_ansible_uses_the_module_of_an_earlier_run(tmp_path):
    environment = {**os.environ, "ANSIBLE_DEBUG": "1"}
    command = [
        sys.executable,
        "-m",
        "ansible",
        "adhoc",
        "-i",
        "localhost,",
        "-c",
        "local",
        "localhost",
        "-m",
        "deeplearning.cluster.sge_info",
    ]
    first, second = (subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout for _run in range(2))
    assert "ANSIBALLZ: Creating module" in first
    assert "ANSIBALLZ: using cached module" in second
    assert "ANSIBALLZ: Creating module" not in second
    assert [path.name for path in (tmp_path / "cache").glob("*/*/*/*")] == [FILE]


def test_modules_of_other_files_are_not_used_and_deleted_after_a_week(is_built, kept, monkeypatch):
    assert is_built("first")
    assert not is_built("second")
    monkeypatch.setattr(built_modules, "digest", lambda: "other")
    assert is_built("third")
    assert (kept / FILE).read_text() == "first"
    os.utime(kept, (0, time.time() - 8 * 24 * 3600))
    monkeypatch.setattr(built_modules, "digest", lambda: "latest")
    assert is_built("fourth")
    assert sorted(each.name for each in kept.parent.iterdir()) == ["latest", "other"]


def test_the_digest_changes_with_files_that_modules_import(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(built_modules, "PLUGINS", tmp_path)
    file = tmp_path / "module_utils" / "a.py"
    file.parent.mkdir()
    digests = []
    for text in ("a = 1\n", "a = 12\n"):
        file.write_text(text)
        digests.append(built_modules.digest.__wrapped__())
    os.utime(file, (0, 0))
    assert len({*digests, built_modules.digest.__wrapped__()}) == 3


def test_a_folder_to_which_others_can_write_is_not_used(is_built, kept):
    assert is_built("first")
    kept.chmod(0o770)
    assert is_built("second")


def test_the_folder_of_another_user_is_not_used(is_built, monkeypatch):
    assert is_built("first")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert is_built("second")


def test_ansible_builds_modules_if_the_folder_cannot_be_created(is_built, tmp_path):
    Path(tmp_path, "cache").write_text("a file")
    assert is_built("first")
    assert is_built("second")
