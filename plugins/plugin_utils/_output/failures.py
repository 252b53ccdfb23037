# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes why a task failed, as plain text. All functions are pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils._text import clean
from ..ssh_login import THROUGH_ANOTHER

# The beginning of ansible-core's messages about exceptions.
PREFIX = re.compile(r"\A(?:Task failed: )?(?:(?:Action|Module) failed: )?")
EXIT_STATUS = "non-zero return code"
# ansible-core's messages about variables of the wrong type or with an unsupported value, in the argument specs of roles.
INTRODUCTION = "Validation of arguments failed:\n"
CONVERSION = re.compile(
    r"^argument '([^']+)' is of type \w+ and we were unable to convert to (\w+): (?:\"?('.*?')\"? cannot be|.).*$", re.MULTILINE
)
CHOICES = re.compile(r"^value of (\S+) must be one of: (.+), got: (.*)$", re.MULTILINE)
TYPES = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a dictionary",
    "str": "a string",
    "path": "a path",
}
SSH = re.compile(r"\AFailed to connect to the host via ssh: ")
# ssh's message if a jump host forwarded the connection and then closed it.
CLOSED = re.compile(r"^kex_exchange_identification: |\bby UNKNOWN port 65535\b")
OUTPUTS = ("stderr", "stdout", "module_stderr", "module_stdout")
OUTPUT_LINES = 8
# Maximum number of lines for one failure. In a longer text, the beginning says what failed, and the end says why.
LINES, FIRST_LINES = 18, 4


def failure_text(result: Mapping[str, Any]) -> str:
    """Return why a task failed, from the result of a host or of a loop item."""
    if "censored" in result:
        return "The reason is hidden, because the task sets no_log."
    message = PREFIX.sub("", str(result.get("msg") or result.get("reason") or "")).strip()
    if message.startswith(INTRODUCTION):
        message = _of_arguments(message[len(INTRODUCTION) :])
    if EXIT_STATUS in message and "rc" in result:
        message = f"Exit status {result['rc']} of: {_command(result.get('cmd'))}"
    elif message == "Assertion failed" and result.get("assertion"):
        message = f"Assertion failed: {result['assertion']}"
    printed = next((text for text in _outputs(result) if text not in message), "")
    lines = [message, *printed.splitlines()[-OUTPUT_LINES:]]
    return clean("\n".join(filter(None, lines))) or "The task returned no error message."


def items_text(failed: Iterable[tuple[str, str]]) -> str:
    """Return why loop items failed, from the label and failure text of each item. Items with the same text are grouped."""
    labels: dict[str, list[str]] = {}
    for label, text in failed:
        labels.setdefault(text, []).append(label)
    return "\n".join(f"{', '.join(names)}: {text}" for text, names in labels.items())


def unreachable_text(result: Mapping[str, Any]) -> str:
    """Return why a host is unreachable, as one line."""
    message = PREFIX.sub("", str(result.get("msg") or "no reason given"))
    lines = list(dict.fromkeys(filter(None, (line.strip() for line in clean(SSH.sub("", message)).splitlines()))))
    if other_host(message):
        *told, advice = (line for line in lines if not CLOSED.search(line))
        lines = [f"{'; '.join(told).rstrip('.')}.", advice] if told else [advice]
    return re.sub(r"(?<=[^.])\n", "; ", "\n".join(lines)).replace("\n", " ")


def other_host(message: str) -> str:
    """Return the host or the service through which SSH reaches an unreachable host, or an empty string if SSH connects directly."""
    found = THROUGH_ANOTHER.search(message)
    return found[1] if found else ""


def shortened(text: str, limit: int = LINES) -> list[str]:
    """Return at most `limit` lines of a text. In a longer text, a note replaces the lines in the middle."""
    lines = text.splitlines()
    if len(lines) <= limit:
        return lines
    first = min(FIRST_LINES, limit // 3)
    last = limit - first - 1
    return [*lines[:first], f"... ({len(lines) - first - last} lines omitted, use -v to show them)", *lines[-last:]]


def _of_arguments(message: str) -> str:
    """Return a message about a role's variables that says what is wrong with each value and what to do."""
    message = CONVERSION.sub(
        lambda found: f"{found[1]}: {found[3] or 'the value'} has the wrong type. Specify {TYPES.get(found[2], found[2])}.", message
    )
    return CHOICES.sub(lambda found: f"{found[1]}: '{found[3]}' is not supported. Use one of {found[2]}.", message)


def _command(command: Any) -> str:
    return " ".join(map(str, command)) if isinstance(command, (list, tuple)) else str(command)


def _outputs(result: Mapping[str, Any]) -> Sequence[str]:
    """Return the non-empty outputs in a result, standard error first."""
    return [text for name in OUTPUTS if (text := str(result.get(name) or "").strip())]
