# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The forms of words that fit a number, for sentences of hosts and of the controller."""

from __future__ import annotations


def form(number: int, one: str, many: str) -> str:
    """Return the form of a word, or of a part of a sentence, that fits the number of things."""
    return one if number == 1 else many


def plural(number: int, one: str, many: str) -> str:
    """Return a number with the form of a noun that fits it."""
    return f"{number} {form(number, one, many)}"
