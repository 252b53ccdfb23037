"""Tests of strings in place of lists: which strings are refused, and which list the message suggests."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.command_lines import is_one_string, list_error


@pytest.mark.parametrize(
    ("value", "unchanged", "refused"),
    [
        ("--epochs 3", True, True),
        ("train", True, True),
        ("", True, False),
        (" ", True, False),
        (["--epochs 3"], True, False),
        (None, True, False),
        ("*.ckpt data", False, True),
        ("*.ckpt,data", False, False),
        ("", False, False),
        ([], False, False),
    ],
)
def test_what_is_refused(value, unchanged, refused):
    assert is_one_string(value, unchanged=unchanged) is refused


@pytest.mark.parametrize(
    ("value", "suggested", "typed"),
    [
        ("--epochs 3", '["--epochs", "3"]', """'{"arguments": ["--epochs", "3"]}'"""),
        ("--name 'two words'", '["--name", "two words"]', """'{"arguments": ["--name", "two words"]}'"""),
        ("it's", '["it\'s"]', """'{"arguments": ["it'"'"'s"]}'"""),
    ],
)
def test_the_list_that_a_shell_would_make(value, suggested, typed):
    expected = f"arguments: {value!r} is a string. Use a list: {suggested}. On the command line, use -e {typed}."
    assert list_error("arguments", value) == expected
