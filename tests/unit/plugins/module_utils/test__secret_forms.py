"""Tests of the forms in which secrets are replaced."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus, urlencode

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._secret_forms import forms, mask

SECRETS = ["pa ss/w\u00f6rd+1", 'say "it\'s"/more', 'w\u00f6rd "it\'s"\tmore', "first\nlines, of it\n}", "back\\slash", "tab\tand\r\nmore"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        ascii,
        json.dumps,
        lambda text: json.dumps({"a": text}, ensure_ascii=False),
        lambda text: repr(text.encode()),
        quote,
        quote_plus,
        lambda text: f"https://u:{quote(text, safe='')}@h/",
        lambda text: urlencode({"key": text}),
        lambda text: text.splitlines()[0],
        lambda text: text.replace("'", r"'\''"),
        lambda text: text.replace("'", "'\"'\"'"),
        lambda text: quote(text, safe="!'()*"),
        lambda text: quote_plus(text, safe="/"),
    ],
)
def test_what_programs_show_is_replaced(secret, show):
    masked = mask(f"<{show(secret)}>", [secret], "***")
    assert "***" in masked
    assert not [word for word in ("pa ss", "w\u00f6rd", "say", "first", "lines", "slash", "tab", "more") if word in masked]


def test_short_texts_are_kept_and_longer_ones_come_first():
    assert mask("abc } {", ["abc", "}", "", "{\n}"], "***") == "abc } {"
    assert forms(["WXYZ", "ABCDEFGH"]) == ["ABCDEFGH", "WXYZ"]
    assert mask(r"a \1 b", ["a \\1 b"], r"\1") == r"\1"


def test_a_secret_that_is_no_unicode_text_is_replaced():
    secret = "pa ss\udcff"
    assert mask(f"<{secret}> {quote(secret, errors='replace')}", [secret], "***") == "<***> ***"


def test_secrets_are_changed_like_the_text():
    assert mask("ONE TWO", ["one two"], "***", str.upper) == "***"
