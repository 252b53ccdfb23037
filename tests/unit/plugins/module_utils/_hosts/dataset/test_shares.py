"""Tests that check how the objects of a data set are divided among hosts."""

from __future__ import annotations

import fnmatch

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import shares

FILES = [(f"class{number % 7}/image-{number:04d}[x].jpg", 1 + number * 37 % 1000) for number in range(500)]


@pytest.mark.parametrize("count", [1, 3, 8, 600])
def test_shards_are_balanced_complete_and_the_same_everywhere(count):
    divided = shares.shards(FILES, count)
    assert sorted(file for shard in divided for file in shard) == sorted(FILES)
    assert divided == shares.shards(FILES[::-1], count)
    sizes = [sum(size for _path, size in shard) for shard in divided]
    assert max(sizes) - min(sizes) <= 1000


@pytest.mark.parametrize("files", [FILES, [("a", 5), ("ab", 5), ("abc", 5), ("b", 0)], [("one", 1)]], ids=["many", "nested", "one"])
@pytest.mark.parametrize("count", [2, 5])
def test_patterns_name_each_object_once(files, count):
    divided = shares.patterns(files, count)
    assert len(divided) == count
    for path, _size in files:
        assert sum(fnmatch.fnmatchcase(path, pattern) for share in divided for pattern in share) == 1
    if files is FILES:
        assert all(len(share) <= 12 for share in divided)
        sizes = [sum(size for path, size in files if any(fnmatch.fnmatchcase(path, each) for each in share)) for share in divided]
        assert max(sizes) < 1.5 * sum(sizes) / count
