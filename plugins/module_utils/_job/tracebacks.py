# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds the error of a Python script in the last lines of its log. This code runs on hosts."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._text import clean_line

HEAD = "Traceback (most recent call last):"
# A stack frame. A launcher may write a prefix before each line.
FRAME = re.compile(r'(?P<prefix>.{0,200}?)  File "(?P<path>[^"]{1,4096})", line (?P<line>\d{1,9})')
ERROR = re.compile(r"(?P<kind>[A-Za-z_][\w.]{0,200})(?:: (?P<message>.*))?")

# Frames in the stacks that faulthandler and py-spy write, and the lines before the frames of a thread. A launcher may write a prefix before
# each line.
STACK_FRAMES = (
    re.compile(r'.{0,200}?  File "(?P<path>[^"]{1,4096})", line (?P<line>\d{1,9}) in '),
    re.compile(r" {4}\S.{0,400} \((?P<path>[^():]{1,4096}):(?P<line>\d{1,9})\)$"),
)
THREAD = re.compile(r".{0,200}?(?:Current thread|Thread) (?:0x)?[0-9a-fA-F]+")
CURRENT = re.compile(r".{0,200}?Current thread 0x|Thread \d{1,9} .*\"MainThread\"")

# The line that faulthandler writes before the stacks of a process that a signal kills.
FATAL = "Fatal Python error: "
# The line in which the C++ runtime writes the message of the exception because of which it aborts the process.
TERMINATED = "  what():  "

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
    found = next(((index, frame) for index in reversed(range(len(lines))) if (frame := FRAME.match(lines[index]))), None)
    if found is None:
        return None
    last, innermost = found
    prefix = innermost["prefix"]
    error = _error(lines[last + 1 :], prefix)
    if error is None:
        return None
    frames = []
    for line in reversed(lines[: last + 1]):
        frame = FRAME.match(line)
        if frame and frame["prefix"] == prefix:
            frames.append((frame["path"], frame["line"]))
        elif HEAD in line:
            break
    return ScriptError(error["kind"].rpartition(".")[2], place(frames, directory), (error["message"] or "")[:MESSAGE_LIMIT])


def error_before_abort(lines: Sequence[str], directory: str) -> ScriptError | None:
    """Return the script's exception whose message the C++ runtime repeats when it aborts the process, or None.

    After an error on a GPU, the script raises an exception. While Python exits, a thread of torch's NCCL backend can find the same error,
    and abort the process.
    """
    last = next((index for index in reversed(range(len(lines))) if TERMINATED in lines[index]), 0)
    error = script_error(lines[:last], directory)
    return error if error and error.message and error.message in lines[last] else None


def crash_place(lines: Sequence[str], directory: str) -> str:
    """Return where a Python process was when a signal killed it, such as `train.py, line 42`, or an empty string if that is unknown.

    Python writes its stack to the log if PYTHONFAULTHANDLER is set.
    """
    last = next((index for index in reversed(range(len(lines))) if FATAL in lines[index]), None)
    return "" if last is None else place(current_thread(lines[last + 1 :]), directory)


def current_thread(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the frames of the current or main thread as paths and lines, innermost first, as in the output of py-spy and faulthandler."""
    first = next((index + 1 for index, line in enumerate(lines) if CURRENT.match(line)), 0)
    frames = []
    for line in lines[first:]:
        found = next((match for match in (frame.match(line) for frame in STACK_FRAMES) if match), None)
        if found:
            frames.append((found["path"], found["line"]))
        elif frames and THREAD.match(line):
            break
    return frames


def place(frames: Sequence[tuple[str, str]], directory: str) -> str:
    """Return the first of these frames in `directory`, or the first of all frames, such as `train.py, line 42`. Without frames, return an
    empty string.
    """
    inside = directory.rstrip("/") + "/"
    chosen = next((frame for frame in frames if frame[0].startswith(inside)), frames[0] if frames else None)
    if chosen is None:
        return ""
    path = chosen[0][len(inside) :] if chosen[0].startswith(inside) else os.path.basename(chosen[0])
    return f"{clean_line(path)[-MESSAGE_LIMIT:]}, line {chosen[1]}"


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
