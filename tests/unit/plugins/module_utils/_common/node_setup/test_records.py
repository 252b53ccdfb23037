"""Tests that check which records mean that a step has succeeded."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils import _files
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_setup import records


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "5", '"succeeded"', '{"state": "failed"}', '{"state": "running"}', '{"state": ["succeeded"]}']
)
def test_nothing_but_a_whole_record_of_success_counts(text):
    assert not records.has_succeeded(_files.parse_object(text))
    assert records.has_succeeded(_files.parse_object('{"state": "succeeded"}'))


def test_missing_steps_are_described(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RECORDS", str(tmp_path))
    (tmp_path / "aaa.json").write_text('{"state": "succeeded"}')
    (tmp_path / "bbb.json").write_text('{"state": "failed"}')
    assert records.missing({"aaa": "step 1 (a)", "bbb": "step 2 (b)", "ccc": "step 3 (c)"}) == ["step 2 (b)", "step 3 (c)"]
    assert records.missing({}) == []
