"""Tests of the record of an environment."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils import _files
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment import record


def test_a_record_is_locked_and_read_half_written(tmp_path):
    path = str(tmp_path / "record.json")
    with record.exclusive(path, 0) as held:
        assert not held.waited
        held.write({"error": "a long reason for a failure"})
        held.write({"specification": "torch"})
        with (
            pytest.raises(record.EnvironmentRefusalError, match="waiting for another host to build the environment"),
            record.exclusive(path, 0),
        ):
            pass
    assert _files.read_object(path) == {"specification": "torch"}
    for damaged in (b'{"specif', b'{"\xff": 1}', b"1"):
        (tmp_path / "record.json").write_bytes(damaged)
        assert _files.read_object(path) == {}
    assert _files.read_object(str(tmp_path / "none.json")) == {}
