# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shows the text of the collection's own actions."""

from __future__ import annotations

from ansible import constants
from ansible.utils.display import Display

from .budget import TEXT, Budget

display = Display()

# The stdout callbacks whose output is text for people. All other callbacks, such as ansible.posix.json, may write a format for programs.
TEXT_CALLBACKS = ("deeplearning.cluster.concise", "ansible.builtin.default", "default")


class ProgressLine(str):
    """A line that is replaced by the next line about the same subject. The callback `concise` rewrites such lines in place."""


def show(text: str, limit: int = TEXT) -> None:
    """Show at most `limit` characters of a text: on standard output or, if that may be for programs, on standard error."""
    kind = ProgressLine if isinstance(text, ProgressLine) else str
    display.display(kind(Budget(text=limit).cut(text)), stderr=constants.DEFAULT_STDOUT_CALLBACK not in TEXT_CALLBACKS)
