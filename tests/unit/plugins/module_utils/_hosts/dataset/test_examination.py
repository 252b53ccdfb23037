"""Tests of what is examined before a data set is staged."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import (
    examination,
)


def test_an_upload_needs_free_space_before_it_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(examination.shutil, "disk_usage", lambda _path: type("Usage", (), {"free": 10}))
    spec: dict[str, object] = dict.fromkeys(("name", "checksum", "unpack", "sources"))
    spec.update(source="/home/me/data", destination="local", directory=str(tmp_path / "datasets"), shards=[])
    spec["upload"] = {"version": "a", "size": 100, "single": False}
    with pytest.raises(DataError, match="fetching /home/me/data requires 100 bytes, but the free space is only 10 bytes"):
        examination.examine(spec)
