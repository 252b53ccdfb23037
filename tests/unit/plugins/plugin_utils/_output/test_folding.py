"""Tests of the folding of long lines."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output.folding import LONGEST, cut, folded, short


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("a\n  b", ["a", "  b"]),
        ("x" * 30, ["x" * 30]),
        ("x" * 30 + "EVIL", ["x" * 30, "    EVIL"]),
        ("one" + " " * 27 + "EVIL", ["one", "    EVIL"]),
        ("  twenty-four characters, and more", ["  twenty-four characters, and", "      more"]),
        ("\u4e00" * 15 + "EVIL", ["\u4e00" * 15, "    EVIL"]),
        ("\t\t\t\tEVIL", ["", "            EVIL"]),
        ("run: ansible-playbook x -e name=digits", ["run: ansible-playbook x -e \\", "    name=digits"]),
    ],
)
def test_the_rest_of_a_long_line_is_indented(text, lines):
    assert folded(text, 30).split("\n") == lines


@pytest.mark.parametrize("width", [1, 5, 21, 80])
def test_no_text_begins_in_the_first_column(width):
    for count in range(200):
        for text in ("-" * count + "EVIL", " " * count + "EVIL", "\u4e00" * count + "EVIL", "ansible-playbook " * count + "EVIL"):
            first, *rest = folded(f"  {text}", width).split("\n")
            assert len(first) <= max(width, 12)
            assert all(not line or line.startswith("    ") for line in rest)


def test_long_lines_end_with_a_note():
    assert short("x" * LONGEST) == "x" * LONGEST
    told = short("x" * (LONGEST + 7) + "To stop these costs, run destroy.")
    assert told.startswith("x" * 600)
    assert "x... (40 more characters, use -v to show them) ...x" in told
    assert told.endswith("xTo stop these costs, run destroy."), "the end says what to do"


@pytest.mark.parametrize(("line", "width", "fits"), [("abcdef", 4, "abcd"), ("a界b界c", 4, "a界b"), ("a界b", 3, "a界"), ("界", 1, "")])
def test_a_line_is_cut_by_its_columns(line, width, fits):
    assert cut(line, width) == fits
