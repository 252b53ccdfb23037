"""Tests that check how users' text files are read."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.text_files import decode, program_problem, python_problem


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding(encoding):
    assert decode("café\r\n".encode(encoding)) == "café\r\n"


@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-32-be"])
def test_the_byte_order_may_be_the_other_one(encoding):
    assert decode("\ufeffcafé".encode(encoding)) == "café"


@pytest.mark.parametrize("first", [b"", b"# ours\n"])
def test_a_coding_line_tells_the_encoding(first):
    assert decode(first + b"# -*- coding: latin-1 -*-\n# caf\xe9\n").endswith("# café\n")
    with pytest.raises(ValueError, match="line 4 is not utf-8 text"):
        decode(b"\n\n# coding: latin-1\n# caf\xe9\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"numpy\n# caf\xe9\n", "line 2 is not utf-8 text. Save the file as UTF-8."),
        (b"# coding: nope\n", "the encoding 'nope' of the coding line does not exist. Save the file as UTF-8."),
        (b"# coding: hex\n", "the encoding 'hex' of the coding line does not exist. Save the file as UTF-8."),
        (b"\xff\xfea", "line 1 is not utf-16 text. Save the file as UTF-8."),
    ],
)
def test_what_is_no_text_is_an_error_with_advice(content, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        decode(content)


@pytest.mark.parametrize(
    ("content", "program", "shell"),
    [
        (b"#!/bin/sh\ntrue\n", "", ""),
        (b"true\n", "", ""),
        (b"", "", ""),
        (b"true\r\n", "", "has Windows line breaks"),
        (b"\xef\xbb\xbftrue\n", "", "begins with a byte order mark"),
        (b"#!/bin/sh\r\ntrue\r\n", "has Windows line breaks", "has Windows line breaks"),
        (b"\xef\xbb\xbf#!/bin/sh\n", "begins with a byte order mark", "begins with a byte order mark"),
        ("#!/bin/sh\n".encode("utf-16"), "begins with a byte order mark", "begins with a byte order mark"),
    ],
)
def test_programs_that_hosts_cannot_run(content, program, shell):
    assert program_problem(content).partition(". ")[0] == program
    assert program_problem(content, is_shell=True).partition(". ")[0] == shell


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xef\xbb\xbf#!/usr/bin/env python\r\nprint()\r\n", ""),
        (b"# coding: latin-1\n# caf\xe9\n", ""),
        (b"# caf\xe9\n", "cannot be read by Python: line 1 is not utf-8 text. Save the file as UTF-8."),
        (
            "print()".encode("utf-16"),
            "begins with a byte order mark of UTF-16 or UTF-32, which Python cannot read. Save the file as UTF-8.",
        ),
    ],
)
def test_scripts_that_python_cannot_read(content, problem):
    assert python_problem(content) == problem
