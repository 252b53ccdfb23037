# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Folds and shortens long lines. All functions are pure.

A terminal continues a long line in its first column, so that text after padding could imitate a line of Ansible's output.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator

# Characters that take two columns on some terminals (Unicode Standard Annex 11).
WIDE = "WFA"
# How far the rest of a folded line is indented, the smallest width to which lines are folded, and the smallest part of it for the text.
HANGING, NARROWEST, LEAST = 4, 12, 20
# Maximum number of characters in a shown line.
LONGEST = 1000
# A line with a command ends with a backslash where it is folded, so that a shell understands a copy of it.
COMMAND, CONTINUED = "ansible-playbook ", "\\"


def folded(text: str, width: int) -> str:
    """Return a text in which each line fits into `width` columns. The rest of a longer line follows indented."""
    return "\n".join(part for line in text.split("\n") for part in _parts(line.expandtabs(), width))


def cut(line: str, width: int) -> str:
    """Return the beginning of a line that fits into `width` columns. Some characters take two columns."""
    if line.isascii():
        return line[:width]
    columns = itertools.accumulate(2 if unicodedata.east_asian_width(character) in WIDE else 1 for character in line)
    return line[: sum(1 for _column in itertools.takewhile(lambda column: column <= width, columns))]


def _parts(line: str, width: int) -> Iterator[str]:
    """Yield a line in parts. In a line with wide characters, such as Chinese characters, all characters count as wide."""
    if not line.isascii() and any(unicodedata.east_asian_width(character) in WIDE for character in set(line)):
        width //= 2
    width = max(width, NARROWEST)
    if len(line) <= width:
        yield line
        return
    hanging = " " * min(len(line) - len(line.lstrip(" ")) + HANGING, max(HANGING, width - LEAST))
    end = CONTINUED if COMMAND in line else ""
    head, begin = "", 0
    while len(line) - begin > width - len(head):
        room = width - len(head) - len(end)
        space = line.rfind(" ", begin + room // 2, begin + room)
        stop = space + 1 if space >= 0 else begin + room
        yield (head + line[begin:stop]).rstrip(" ") + (f" {end}" if end and space >= 0 else end)
        head, begin = hanging, stop
    yield head + line[begin:]


def short(line: str) -> str:
    """Return a line. Of a long one, return the beginning, a note and the end, which usually says what to do."""
    rest, end = len(line) - LONGEST, LONGEST // 3
    return line if rest <= 0 else f"{line[: LONGEST - end]}... ({rest} more characters, use -v to show them) ...{line[-end:]}"
