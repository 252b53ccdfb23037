# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds the error of a Python script in the last lines of its log. This code runs on hosts and imports only the standard library."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Sequence

HEAD = "Traceback (most recent call last):"
# A stack frame. A launcher may write a prefix before each line.
FRAME = re.compile(r'(?P<prefix>.{0,200}?)  File "(?P<path>[^"]{1,4096})", line (?P<line>\d{1,9})')
ERROR = re.compile(r"(?P<kind>[A-Za-z_][\w.]{0,200})(?:: (?P<message>.*))?")

# The message of argparse or Click about wrong arguments: the usage in the first lines, and the error in the last line.
USAGE = "usage: "
USAGE_ERROR = re.compile(r"(?:.{1,500}?: error|.{0,500}?\bError): (?P<message>.+)")

MESSAGE_LIMIT, USAGE_LINES = 300, 100


class ScriptError(NamedTuple):
    """An exception that ended a script: its type without the module, where it was raised (`train.py, line 42`), and its message."""

    kind: str
    place: str
    message: str


def script_error(lines: Sequence[str], directory: str) -> ScriptError | None:
    """Return the last exception in a log, or None if the log contains no traceback. The run time is linear in the number of lines.

    The place is the innermost frame in `directory`, which contains the job's code, or the innermost of all frames if no frame is in
    `directory`.
    """
    last = next((index for index in range(len(lines) - 1, -1, -1) if FRAME.match(lines[index])), None)
    if last is None:
        return None
    innermost = FRAME.match(lines[last])
    prefix = innermost["prefix"] if innermost else ""
    error = _error(lines[last + 1 :], prefix)
    if error is None:
        return None
    frames = []
    for line in reversed(lines[: last + 1]):
        frame = FRAME.match(line)
        if frame and frame["prefix"] == prefix:
            frames.append(frame)
        elif HEAD in line:
            break
    inside = directory.rstrip("/") + "/"
    frame = next((frame for frame in frames if frame["path"].startswith(inside)), frames[0])
    path = frame["path"][len(inside) :] if frame["path"].startswith(inside) else os.path.basename(frame["path"])
    kind, message = error["kind"].rpartition(".")[2], (error["message"] or "")[:MESSAGE_LIMIT]
    return ScriptError(kind, f"{path[-MESSAGE_LIMIT:]}, line {frame['line']}", message)


def usage_error(lines: Sequence[str]) -> str:
    """Return the error about the script's arguments at the end of a log, or an empty string if the log does not end with such an error."""
    last = next((line for line in reversed(lines) if line.strip()), "")
    found = USAGE_ERROR.fullmatch(last.rstrip())
    is_usage = found is not None and any(USAGE in line.lower() for line in lines[-USAGE_LINES:])
    return found["message"][:MESSAGE_LIMIT] if found and is_usage else ""


def _error(lines: Sequence[str], prefix: str) -> re.Match[str] | None:
    """Return the line with the exception.

    The lines between the last frame and the line with the exception show source code, and are indented.
    """
    for line in lines:
        if not line.startswith(prefix):
            continue  # another process writes to the same log
        text = line[len(prefix) :]
        if text and not text.startswith(" "):
            return ERROR.fullmatch(text)
    return None
