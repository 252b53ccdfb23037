# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests that check whether a directory contains a complete checkpoint."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import checkpoint_files


def test_only_a_complete_checkpoint_counts(tmp_path):
    assert not checkpoint_files.has_complete(str(tmp_path / "missing"))
    for name in (".hidden", "epoch-1.tmp"):
        (tmp_path / name).touch()
    assert not checkpoint_files.has_complete(str(tmp_path))
    (tmp_path / "epoch-1").touch()
    assert checkpoint_files.has_complete(str(tmp_path))


def test_a_directory_with_too_many_entries_is_not_read_to_its_end(tmp_path, monkeypatch):
    (tmp_path / "epoch-1").touch()
    monkeypatch.setattr(checkpoint_files, "ENTRIES", 0)
    assert not checkpoint_files.has_complete(str(tmp_path))
