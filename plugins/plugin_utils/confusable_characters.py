# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds characters in command lines that look like a space, a hyphen or a quotation mark, or like nothing at all.

Command lines that are copied from web pages and documents contain such characters. All functions are pure.
"""

from __future__ import annotations

import re
import unicodedata

SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
INVISIBLE = "\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff"
HYPHENS = "\u2010-\u2015\u2212\ufe58\ufe63\uff0d"
QUOTES = "\u00ab\u00bb\u2018-\u201f"
REMEDIES = {
    SPACES: "Replace it with a space, or remove it.",
    INVISIBLE: "Remove it.",
    HYPHENS: "Replace it with '-'.",
    QUOTES: "Replace it with a plain quotation mark, or remove it.",
}
IN_SHELL_WORDS = re.compile(rf"[{SPACES}{INVISIBLE}]|(?<!\S)[{HYPHENS}](?=\w)|(?:(?<!\S)|(?<==))[{QUOTES}]")
# In a single word, such characters can be meant, except at its ends, in the name of an option, and as quotation marks around one word.
IN_WORD = re.compile(
    rf"\A(?P<first>[{SPACES}{INVISIBLE}])|(?P<last>[{SPACES}{INVISIBLE}])\Z|\A(?P<dash>[{HYPHENS}])(?=\w)"
    rf"|\A-[\w.-]*(?P<name>[{SPACES}{INVISIBLE}{HYPHENS}])|\A(?:-[\w.-]+=)?(?P<quote>[{QUOTES}])\S*[{QUOTES}]\Z"
)


def problem_in_shell_words(text: str) -> str:
    """Return a sentence about the first confusable character in a text that is split into words as a shell does, or an empty string."""
    return _describe(text, IN_SHELL_WORDS.search(text))


def problem_in_word(word: str) -> str:
    """Return a sentence about a confusable character in one word of a command that is certainly a mistake, or an empty string."""
    return _describe(word, IN_WORD.search(word))


def _describe(text: str, found: re.Match[str] | None) -> str:
    if not found:
        return ""
    position = found.start(found.lastgroup or 0)
    character = text[position]
    remedy = next(remedy for characters, remedy in REMEDIES.items() if re.match(f"[{characters}]", character))
    return f"character {position + 1} is U+{ord(character):04X} ({unicodedata.name(character, 'unnamed')}). {remedy}"
