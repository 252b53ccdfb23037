"""Tests that control characters and terminal control sequences are removed from text from hosts."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._text import clean, clean_line


@pytest.mark.parametrize(
    ("text", "cleaned", "line"),
    [
        ("loss 0.5 äö 模型 🙂", "loss 0.5 äö 模型 🙂", "loss 0.5 äö 模型 🙂"),
        ("a\x1b[31mred\x1b[0m", "ared", "ared"),
        ("a\x1b]0;title\x07b\x9b2Jc", "abc", "abc"),
        ("a\x1b]8;;https://x\x1b\\b", "ab", "ab"),
        ("a\x1bcb", "ab", "ab"),
        ("a\x00b\x7fc\x85d", "abc\nd", "abc d"),
        ("a\u202eb\u2066c", "abc", "abc"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd", "a b c d"),
        ("a\tb\n\n\tc", "a\tb\n\n\tc", "a b c"),
        ("half \ud83d of it", "half \ufffd of it", "half \ufffd of it"),
        ("a\u200b\xad\ufeff\U000e0041\u2800\u3164b", "ab", "ab"),
        ("e" + "\u0301" * 50 + "\u0489x", "e" + "\u0301" * 3 + "x", "e" + "\u0301" * 3 + "x"),
        ("a\xa0\u3000b", "a  b", "a  b"),
        ("", "", ""),
    ],
)
def test_what_is_left_of_text(text, cleaned, line):
    assert clean(text) == cleaned
    assert clean_line(text) == line
