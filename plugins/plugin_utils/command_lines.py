# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Rejects strings where lists are required.

Ansible turns a string into a list by splitting it at its commas. A command line such as `--epochs 3` would become one argument.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

# Job options whose elements are passed to a process unchanged. A string is rejected even if it is a single word.
UNCHANGED = ("arguments", "command")


def is_one_string(value: Any, *, unchanged: bool) -> bool:
    """Return whether a value is a string that Ansible would split into a list, probably not as the user intended."""
    return isinstance(value, str) and bool(value.strip() if unchanged else value.split()[1:])


def list_error(name: str, value: str) -> str:
    """Return an error message about a string. The message contains the list of words into which a shell would split the string."""
    try:
        words = shlex.split(value)
    except ValueError:  # an unclosed quotation mark
        words = [value]
    extra = shlex.quote(json.dumps({name: words}))
    return f"{name}: {value!r:.100} is a string. Use a list: {json.dumps(words)}. On the command line, use -e {extra}."
