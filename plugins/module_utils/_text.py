# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Makes text from hosts safe to show: removes terminal control sequences and characters that disguise the text."""

from __future__ import annotations

import re

# ECMA-48: strings (OSC, DCS, SOS, PM, APC) with their terminator, control sequences (CSI), and other escape sequences.
_SEQUENCE = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# C0 without tab and newline, DEL, C1, and characters that change the direction of text (Unicode Bidirectional Algorithm, UAX #9).
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]")
# JSON can contain unpaired surrogates, which cannot be encoded as UTF-8.
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile("[\t\n]+")


def clean(text: str) -> str:
    """Return multi-line text without control characters. Tabs are kept, and all line breaks become `\\n`."""
    text = _LINE_BREAK.sub("\n", _SEQUENCE.sub("", text))
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))


def clean_line(text: str) -> str:
    """Return text as one line without control characters; tabs and line breaks become spaces."""
    return _SPACE.sub(" ", clean(text))
