"""Tests that check which files a pattern matches."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.patterns import matches


@pytest.mark.parametrize(
    ("path", "patterns", "expected"),
    [
        ("data/raw/a.ckpt", ["*.ckpt"], True),
        ("data/raw/a.ckpt", ["raw"], False),
        ("data/raw", ["raw"], True),
        ("data/raw", ["data/raw"], True),
        ("more/data/raw", ["data/raw"], False),
        ("data/raw", ["data/*"], True),
        ("a.CKPT", ["*.ckpt"], False),
        ("a", ["b", "a"], True),
        ("a", [], False),
        ("venv", ["/venv"], True),
        ("lib/venv", ["/venv"], False),
        ("checkpoints/step-1.tmp", ["checkpoints/*.tmp"], True),
        ("checkpoints/step-1/a.tmp", ["checkpoints/*.tmp"], False),
        ("checkpoints/step-1/a.tmp", ["checkpoints/**/*.tmp"], True),
        ("checkpoints/a.tmp", ["checkpoints/**/*.tmp"], True),
        ("more/data", ["data/"], True),
        ("data", ["data/"], True),
    ],
)
def test_matches(path, patterns, expected):
    assert matches(path, patterns) is expected
