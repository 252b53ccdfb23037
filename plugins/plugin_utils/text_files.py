# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads text files that users wrote with any editor, on any operating system."""

from __future__ import annotations

import codecs
import re

# Byte order marks. UTF-16 is after UTF-32, whose mark begins like that of UTF-16. PowerShell writes UTF-16.
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# The line with the encoding of a Python file, which may be the first or the second one (PEP 263). pip reads such lines too.
CODING = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


def decode(content: bytes) -> str:
    """Return the text of a file: with the encoding in its byte order mark or its coding line, otherwise UTF-8. Raises ValueError."""
    encoding = next((name for mark, name in MARKS if content.startswith(mark)), "")
    if not encoding:
        coding = next((found for found in map(CODING.match, content.split(b"\n", 2)[:2]) if found), None)
        encoding = coding[1].decode("ascii", "replace") if coding else "utf-8"
    try:
        return content.decode(encoding)
    except LookupError:
        raise ValueError(f"the encoding {encoding!r} of the coding line does not exist. Save the file as UTF-8.") from None
    except UnicodeError as error:
        line = content[: error.start].count(b"\n") + 1 if isinstance(error, UnicodeDecodeError) else 1
        raise ValueError(f"line {line} is not {encoding} text. Save the file as UTF-8.") from None


def program_problem(content: bytes, *, is_shell: bool = False) -> str:
    """Return why a host cannot run a program with this content, and what to do, or an empty string if the host can.

    If `is_shell` is true, a shell runs the program if it does not name its interpreter.
    """
    has_interpreter = content.removeprefix(codecs.BOM_UTF8).startswith(b"#!")
    if any(content.startswith(mark) for mark, name in MARKS if name != "utf-8-sig" or has_interpreter or is_shell):
        return "begins with a byte order mark. Save the file as UTF-8 without a byte order mark."
    if (has_interpreter or is_shell) and content.partition(b"\n")[0].endswith(b"\r"):
        return "has Windows line breaks. Convert the file, for example with dos2unix."
    return ""


def python_problem(content: bytes) -> str:
    """Return why Python cannot read a script, and what to do, or an empty string if Python can."""
    if any(content.startswith(mark) for mark, name in MARKS if name != "utf-8-sig"):
        return "begins with a byte order mark of UTF-16 or UTF-32, which Python cannot read. Save the file as UTF-8."
    try:
        decode(content)
    except ValueError as error:
        return f"cannot be read by Python: {error}"
    return ""
