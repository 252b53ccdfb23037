"""Tests of files in which other programs have entries."""

from __future__ import annotations

import os
import pwd

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common import managed_files
from unit.modules import Module


@pytest.mark.parametrize(("check_mode", "kept"), [(False, " The old file is {}.4711.2026-11-28@08:00:00~."), (True, "")])
def test_older_entries_are_named_and_the_old_file_is_kept(tmp_path, monkeypatch, check_mode, kept):
    path, written = tmp_path / "fstab", []
    path.write_text("old\n")
    monkeypatch.setattr(managed_files, "write", lambda module, file: written.append(file))
    owner = pwd.getpwuid(os.getuid()).pw_name
    module = Module(check_mode=check_mode)
    file = managed_files.HostFile(str(path), "new\n", owner=owner, replaced=["old", "older"])
    assert len(managed_files.converge(module, [file])) == 1
    assert module.warnings == [f"{path}: older entries are replaced: old; older.{kept.format(path)}"]
    assert written == ([] if check_mode else [file])


def test_a_file_that_stays_needs_no_copy(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("same\n")
    path.chmod(0o644)
    module = Module()
    owner = pwd.getpwuid(os.getuid()).pw_name
    assert managed_files.converge(module, [managed_files.HostFile(str(path), "same\n", owner=owner, replaced=["old"])]) == []
    assert module.warnings == []
