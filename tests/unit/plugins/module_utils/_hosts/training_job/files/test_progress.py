"""Tests that read the progress that a script has reported."""

from __future__ import annotations

import json

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import progress


def test_progress_is_read_on_from_where_it_was_left(tmp_path):
    path = tmp_path / "progress.jsonl"
    assert progress.read_progress(str(path), 0) == ([], 0)
    path.write_bytes(b'{"step": 1}\nnot json\n[1]\n{"step": 2, "no')
    entries, offset = progress.read_progress(str(path), 0)
    assert entries == [{"step": 1}]
    with path.open("ab") as file:
        file.write('te": "ü"}\n'.encode())
    entries, offset = progress.read_progress(str(path), offset)
    assert entries == [{"step": 2, "note": "ü"}]
    assert progress.read_progress(str(path), offset) == ([], offset)


def test_the_last_progress_is_at_the_end_of_a_long_file(tmp_path):
    path = tmp_path / "progress.jsonl"
    assert progress.last_progress(str(path)) == {}
    path.write_text("".join(json.dumps({"step": step, "note": "x" * 100}) + "\n" for step in range(100)) + '{"step": 100')
    assert progress.last_progress(str(path))["step"] == 99
