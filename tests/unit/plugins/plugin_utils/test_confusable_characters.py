"""Tests that find characters of web pages that look like a space, a hyphen or a quotation mark, and nothing that can be meant."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.confusable_characters import problem_in_shell_words, problem_in_word


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-C\u00a0-o ControlMaster=auto", "character 3 is U+00A0 (NO-BREAK SPACE). Replace it with a space, or remove it."),
        ("-C \u200b-o A=b", "character 4 is U+200B (ZERO WIDTH SPACE). Remove it."),
        ("\ufeff-C", "character 1 is U+FEFF (ZERO WIDTH NO-BREAK SPACE). Remove it."),
        ("-C \u2013o A=b", "character 4 is U+2013 (EN DASH). Replace it with '-'."),
        ("-o \u201cA=b\u201d", "character 4 is U+201C (LEFT DOUBLE QUOTATION MARK). Replace it with a plain quotation mark, or remove it."),
        ("-o A=\u2018b\u2019", "character 6 is U+2018 (LEFT SINGLE QUOTATION MARK). Replace it with a plain quotation mark, or remove it."),
        ("-C -o UserKnownHostsFile='/home/zo\u00eb/a b' -i /home/\u5c71/key", ""),
        ("echo it\u2019s done \u2013 really, 3\u20135 times", ""),
        ("", ""),
    ],
)
def test_shell_words(text, message):
    assert problem_in_shell_words(text) == message


@pytest.mark.parametrize(
    ("word", "character"),
    [
        ("\u2013epochs", "U+2013"),
        ("\u2014epochs=3", "U+2014"),
        ("\u22125", "U+2212"),
        ("-\u2013epochs", "U+2013"),
        ("--batch\u2011size=3", "U+2011"),
        ("--epochs\u00a03", "U+00A0"),
        ("--ep\u00adochs", "U+00AD"),
        ("train.py\u200b", "U+200B"),
        ("\u00a0train.py", "U+00A0"),
        ("\u201cbert\u201d", "U+201C"),
        ("--name=\u201cbert\u201d", "U+201C"),
        # What can be meant
        ("--prompt=Bonjour\u00a0!", ""),
        ("\u2013", ""),
        ("\u2013 a thought", ""),
        ("2019\u20132024", ""),
        ("\u201cTo be, or not to be\u201d", ""),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", ""),
        ("--name=\u5c71", ""),
        ("", ""),
    ],
)
def test_words(word, character):
    found = problem_in_word(word)
    assert found.startswith(f"character {word.find(chr(int(character[2:], 16))) + 1} is {character} (") if character else not found
