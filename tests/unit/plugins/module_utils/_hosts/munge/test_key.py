"""Tests of the MUNGE key as text, and as a file that only munged can read."""

from __future__ import annotations

import os
import pwd

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.munge import key

KEY = bytes(range(128))


def test_a_key_survives_its_encoding():
    assert key.decode(key.encode(KEY)) == KEY


@pytest.mark.parametrize("text", ["", "not base64!", key.encode(b"short"), key.encode(b"x" * 2000)])
def test_what_is_not_a_key_is_refused_without_being_shown(text):
    with pytest.raises(ValueError, match=r"key: the value is not a base64-encoded key") as refused:
        key.decode(text)
    assert not text or text not in str(refused.value)


def test_digests_tell_keys_apart():
    assert key.digest(None) == ""
    assert len({key.digest(KEY), key.digest(KEY[1:])}) == 2
    assert len(key.digest(KEY)) == 12


def test_the_file_is_replaced_and_only_its_owner_reads_it(monkeypatch, tmp_path):
    monkeypatch.setattr(key, "USER", pwd.getpwuid(os.getuid()).pw_name)
    path = tmp_path / "deeplearning.key"
    assert key.read_key(str(path)) is None
    for content in (KEY, KEY[::-1]):
        key.write_key(content, str(path))
        assert key.read_key(str(path)) == content
    assert path.stat().st_mode & 0o777 == 0o400
    assert os.listdir(tmp_path) == [path.name]
