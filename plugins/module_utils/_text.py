# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Makes text from hosts safe to show: removes terminal control sequences and characters that disguise the text."""

from __future__ import annotations

import re
import unicodedata
from typing import Iterator

# ECMA-48: strings (OSC, DCS, SOS, PM, APC) with their terminator, control sequences (CSI), and other escape sequences.
_SEQUENCE = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# C0 without tab and newline, DEL and C1.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOT_ASCII = re.compile("[^\x00-\x9f]+")
# Characters without any shape that Unicode counts as letters or symbols.
_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"
# Maximum number of marks above and below a character.
_MARKS = 3
_SPACE = re.compile("[\t\n]+")


def clean(text: str) -> str:
    """Return multi-line text without control characters and invisible characters. Tabs are kept, and all line breaks become `\\n`."""
    text = _CONTROL.sub("", _LINE_BREAK.sub("\n", _SEQUENCE.sub("", text)))
    return text if text.isascii() else _NOT_ASCII.sub(lambda found: "".join(_visible(found[0])), text)


def _visible(text: str) -> Iterator[str]:
    """Yield the characters of a text without format characters, such as those that change the direction of text (UAX #9), without
    enclosing marks, and without the marks of a character that has many.
    """
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cf", "Me") or character in _FILLERS:
            continue
        marks = marks + 1 if category == "Mn" else 0
        if category == "Cs":  # JSON can contain unpaired surrogates, which cannot be encoded as UTF-8
            yield "\ufffd"
        elif category == "Zs":
            yield " "
        elif marks <= _MARKS:
            yield character


def clean_line(text: str) -> str:
    """Return text as one line without control characters; tabs and line breaks become spaces."""
    return _SPACE.sub(" ", clean(text))


def log_line(line: str) -> str:
    """Return a line of a log without control characters other than tabs."""
    return clean(line).replace("\n", " ")
