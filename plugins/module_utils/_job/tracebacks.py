# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds the error of a Python script in the last lines of its log. This code runs on hosts."""

from __future__ import annotations

import itertools
import os
import re
import signal
from typing import Iterator, NamedTuple, Sequence

from .._text import clean_line
from . import error_messages, failure_causes

HEAD = "Traceback (most recent call last)"
# A stack frame of an exception, unlike one of faulthandler. A launcher may write a prefix before each line. loguru marks one frame.
FRAME = re.compile(r'(?P<prefix>.{0,200}?)(?:  |> )File "(?P<path>[^"]{1,4096})", line (?P<line>\d{1,9})(?!\d| in )')
ERROR = re.compile(r"(?P<kind>[A-Za-z_][\w.]{0,200})(?:: (?P<message>.*)|:)?")

# The boxes in which the package rich writes tracebacks, with and without Unicode.
BOX = re.compile(r"(?P<prefix>.{0,200}?)(?:╭─|\+--)")
BOX_LINES = ("│", "|", "╰", "+")
BOX_FRAME = re.compile(r"(?P<path>[^\s:]{1,4096}):(?P<line>\d{1,9}) in\b")
# A progress bar, which another process may write between the lines of a traceback.
PROGRESS_BAR = re.compile(r"\d%\|")
# The ends of the names by which an exception is recognized below other output, such as the log of another thread.
NAME_ENDS = ("Error", "Exception")
# The line above an exception in an exception group. Its traceback, if it has one, follows.
MEMBER = re.compile(r"(?P<prefix>.{0,200}?)(?P<first>\+-)?\+-{16} \d{1,9} -{16}$")

# The lines between two exceptions, of which the second was raised because of the first, or while the first was handled.
DIRECT_CAUSE = "The above exception was the direct cause of the following exception:"
CONTEXT = "During handling of the above exception, another exception occurred:"

# Text in the two lines above the tracebacks of exceptions that never end a program, because Python itself, asyncio or logging handles them,
# and above the stack that logging writes after such a traceback.
HARMLESS = ("Exception ignored in", "Exception ignored on", "Task exception was never retrieved", "--- Logging error ---", "Call stack:")
# The line above a traceback of a thread. The exception does not end the program, but may be the reason why the program ends.
THREAD_ENDED = "Exception in thread "

# The prefix with which torch marks the exception that ends a rank.
RANK_ENDED = re.compile(r"\[rank\d{1,7}\]: $")

# Exceptions that only say that another process has failed, or that consist of other exceptions. How the other process has ended, as a
# signal's name, its number, or an exit status.
WRAPPERS = ("CalledProcessError", "ChildFailedError", "ProcessExitedException", *error_messages.AGENT_ENDED)
GROUPS = ("ExceptionGroup", "BaseExceptionGroup")
CHILD_SIGNAL = re.compile(r"\b(?:died with <Signals\.|terminated with signal )(?P<name>SIG[A-Z0-9]{1,20})\b")
CHILD_STATUS = re.compile(r"\b(?:returned non-zero exit status|terminated with exit code|exitcode {0,9}:) (?P<code>-?\d{1,3})\b")
# The number of lines after such an exception that can contain this. torchrun lists all failures, and the first failure last.
CHILD_LINES = 1000

# An exception counts as handled if more than this number of lines that are no part of a traceback follow.
LINES_AFTER = 50
# Maximum length of a path that a box folds.
PATH_LIMIT = 1000
# Maximum number of lines from an exception on in which its message may name the cause. In TensorFlow's messages, this is one of the last.
MESSAGE_LINES = 40
# The third line of an exception of NCCL, before the line that says most, and the number of lines of such an exception.
LAST_ERROR, NCCL_LINES = "Last error:", 4
# Maximum number of processes that write their tracebacks at the same time.
WRITERS = 32
# Number of innermost stack frames of an exception group that also count for exceptions in the group that have never been raised.
FRAMES = 64

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
# The line in which the C++ runtime writes the message of the exception because of which it aborts the process, and the line in which absl
# (JAX, TensorFlow) says why it aborts the process. In a long line of JAX, the reason follows `STATUS`. TensorFlow, and jaxlib until 2025,
# write the whole date before the severity.
TERMINATED = "  what():  "
STATUS = "absl::Status: "
FATAL_LOG = re.compile(r".{0,200}?\b(F\d{4} \d\d:\d\d:\d\d\.\d{1,9} |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: F )")

# Messages about wrong arguments consist of an error, whose form depends on the exit status, and of the usage or how to show it. Parsers
# such as argparse, Click and Fire end with status 2, and absl with status 1. Typer and tyro write the error into a box.
USAGE = re.compile(r"(?:.{0,100}[\]>:] ?)?usage: |.*--help", re.IGNORECASE)
USAGE_ERRORS = {
    1: re.compile(r".{0,100}?\bFATAL Flags parsing error:(?P<message>.*)"),
    2: re.compile(r".{0,500}?(?:\b(?:error|Error|ERROR):(?P<message> .*|$)|(?:╭─|\+-) )"),
}
# The beginning of the next lines of such an error, which are indented or inside a box.
USAGE_REST = (" ", "│", "|")

# Maximum number of characters in a message, of lines in which the usage is searched for, and of lines that can follow it.
MESSAGE_LIMIT, USAGE_LINES, LINES_AFTER_USAGE = 300, 100, 20


def _says_cause(message: str) -> bool:
    """Return whether the message names a cause, in this process or in another."""
    return error_messages.names_cause(message) or error_messages.is_about_another_process(message)


def _most_precise(message: str, rest: Sequence[str]) -> str:
    """Return the message of an exception, or the last of the lines that NCCL writes after it if the message itself names no cause."""
    says_more = rest[1:2] == [LAST_ERROR] and not _says_cause(message)
    return next(filter(None, rest[2:3]), message) if says_more else message


class ScriptError(NamedTuple):
    """An exception that ended a script: its type without the module, where it was raised (`train.py, line 42`), and its message."""

    kind: str
    place: str
    message: str


class FailedChild(NamedTuple):
    """How a process has ended, according to the program that has started it: the return code as in subprocess, and the number of lines
    before the program's traceback.
    """

    code: int
    line: int


class _Traceback:
    """A traceback in a log. Each of its lines begins with `prefix`. `last` is the index of the line with the exception.

    `previous` is the traceback of the exception that was raised before this one, and `is_direct` is true if it is the cause of this one.
    """

    def __init__(self, prefix: str, first: int) -> None:
        self.prefix, self.first, self.last = prefix, first, first
        self.frames: list[tuple[str, str]] = []
        self.kind, self.message = "", ""
        self.has_head = self.is_boxed = self.is_member = self.is_direct = self.is_harmless = self.is_of_thread = False
        self.is_interrupted = False
        self.previous: _Traceback | None = None
        # In a box: its width, and the beginning of a path that does not fit into a line.
        self.width, self.folded = 0, ""

    def says_cause(self) -> bool:
        """Return whether the message names a cause, such as a full disk or a lost connection."""
        return _says_cause(self.message)

    def origin(self) -> _Traceback:
        """Return the exception to which this one goes back, if it says more: the same error in another process, a cause that this exception
        does not name, or an error that does not depend on the data.
        """
        found, each = self, self
        while each.previous:
            is_direct, each = each.is_direct, each.previous
            is_certain = is_direct and each.kind in failure_causes.EXCEPTIONS_OF_CODE
            is_same = (each.kind, each.message) == (found.kind, found.message)
            if is_same or is_certain or (each.says_cause() and not found.says_cause()):
                found = each
        return found


class _Reader:
    """Reads the tracebacks in the lines of a log, in which several processes may write. The run time is linear in the number of lines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.found: list[_Traceback] = []
        # The indices of all lines that belong to tracebacks.
        self.inside: set[int] = set()
        self._open: dict[str, _Traceback] = {}
        self._closed: dict[str, _Traceback] = {}
        self._links: dict[str, bool] = {}
        # The traceback with the last stack frame in the log.
        self._last: _Traceback | None = None
        for index, line in enumerate(lines):
            if HEAD in line:
                self._begin(index, line)
            elif not (self._link(index, line) or self._member(index, line) or self._frame(index, line)):
                self._continue(index, line)
        self.found = [each for each in self.found if not each.is_harmless]

    def left_open(self) -> bool:
        last = self._last
        return last is not None and last.has_head and not last.is_interrupted and last in self._open.values()

    def _start(self, prefix: str, index: int) -> _Traceback:
        new = _Traceback(prefix, index)
        if prefix in self._links and prefix in self._closed:
            new.previous, new.is_direct = self._closed[prefix], self._links.pop(prefix)
            new.is_harmless = new.previous.is_harmless
        above = self.lines[max(0, index - 2) : index]
        new.is_harmless = new.is_harmless or any(words in line for line in above for words in HARMLESS)
        new.is_of_thread = any(THREAD_ENDED in line for line in above[-1:])
        self._open.pop(prefix, None)
        if len(self._open) == WRITERS:
            del self._open[next(iter(self._open))]
        new.has_head = HEAD in self.lines[index]
        self._open[prefix] = new
        self.inside.add(index)
        return new

    def _begin(self, index: int, line: str) -> None:
        box = BOX.match(line)
        if box:
            new = self._start(box["prefix"], index)
            new.is_boxed, new.width = True, len(line.rstrip()) - len(new.prefix)
            return
        prefix = line[: line.rindex(HEAD)]
        if prefix.endswith("+ Exception Group "):
            prefix = prefix[: -len("+ Exception Group ")] + "| "
        if FRAME.match(line):  # another process has begun to write before the end of the line
            self._frame(index, line)
        elif prefix in self._open and self._open[prefix].is_member:
            self._open[prefix].frames = []
        else:
            self._start(prefix[: -len("Original ")] if prefix.endswith("Original ") else prefix, index)

    def _link(self, index: int, line: str) -> bool:
        words = next((words for words in (DIRECT_CAUSE, CONTEXT) if line.endswith(words)), None)
        if words is None:
            return False
        self._links[line[: -len(words)]] = words == DIRECT_CAUSE
        self.inside.add(index)
        return True

    def _member(self, index: int, line: str) -> bool:
        match = MEMBER.match(line) if line.endswith("-" * 16) else None
        if match is None:
            return False
        new = self._start(match["prefix"] + ("  | " if match["first"] else "| "), index)
        new.is_member = True
        if self.found and self.found[-1].prefix.startswith(match["prefix"].rstrip()):  # the group, or the member before
            new.previous, new.frames = self.found[-1], self.found[-1].frames[-FRAMES:]
        return True

    def _frame(self, index: int, line: str) -> bool:
        frame = FRAME.match(line)
        if frame is None:
            return False
        self.inside.add(index)
        prefix = frame["prefix"]
        current = self._open.get(prefix)
        if current is None or current.is_boxed:
            # A syntax error has no other first line, and a progress bar may end in the line before.
            current = self._start(prefix, index - 1 if index and HEAD in self.lines[index - 1] else index)
        current.frames.append((frame["path"], frame["line"]))
        self._last = current
        return True

    def _continue(self, index: int, line: str) -> None:
        """Read a line that may belong to a traceback: a line of source code or of a box, or the line with the exception."""
        prefix = max(filter(line.startswith, self._open), key=len, default=None)
        if prefix is None:
            return
        current, text = self._open[prefix], line[len(prefix) :]
        if current.is_boxed and text.startswith(BOX_LINES):
            self.inside.add(index)
            self._box_line(current, text[1:-1].strip())
        elif text and not PROGRESS_BAR.search(text) and not text[0].isspace() and (current.frames or current.is_member):
            error = ERROR.fullmatch(text)
            if error and (error["kind"].endswith(NAME_ENDS) or not current.is_interrupted):
                self._close(index, current, error)
            else:
                current.is_interrupted = True

    def _box_line(self, current: _Traceback, text: str) -> None:
        whole = current.folded + text
        frame = BOX_FRAME.match(whole)
        is_folded = whole.startswith("/") and not frame and " " not in whole and len(whole) <= PATH_LIMIT
        current.folded = whole if is_folded else ""
        if frame:
            current.frames.append((frame["path"], frame["line"]))
            self._last = current

    def _close(self, index: int, current: _Traceback, error: re.Match[str]) -> None:
        del self._open[current.prefix]
        self.inside.add(index)
        current.last, current.kind, current.message = index, error["kind"].rpartition(".")[2], error["message"] or ""
        if current.is_boxed:
            current.message = self._unbroken(current)
        rest = list(self._message(current))
        if not error_messages.names_cause(current.message):
            current.message = next(filter(error_messages.names_cause, rest), current.message).strip()
        current.message = _most_precise(current.message, rest)
        self._closed[current.prefix] = current
        self.found.append(current)

    def _unbroken(self, current: _Traceback) -> str:
        """Return the message below a box, without the line breaks that only keep the text within the width of the box."""
        message, before = current.message, self.lines[current.last][len(current.prefix) :]
        for text in self._message(current):
            if len(before) + len(text.partition(" ")[0]) < current.width:
                break
            message, before = f"{message} {text}".strip(), text
        return message

    def _message(self, current: _Traceback) -> Iterator[str]:
        """Yield the lines after an exception, which are the rest of its message or other output."""
        for line in self.lines[current.last + 1 : current.last + MESSAGE_LINES]:
            if HEAD in line:
                return
            if line.startswith(current.prefix):
                yield line[len(current.prefix) :]

    def is_last(self, found: _Traceback) -> bool:
        """Return whether a program has written little after a traceback, so that the exception may have ended the program."""
        after = 0
        for index in range(found.last + 1, len(self.lines)):
            line = self.lines[index]
            text = line[len(found.prefix) :] if line.startswith(found.prefix) else ""
            after += bool(text) and not text[0].isspace() and index not in self.inside
        return after <= LINES_AFTER


def script_error(lines: Sequence[str], directory: str) -> ScriptError | None:
    """Return the exception that ended a script, or None if the log contains none. The run time is linear in the number of lines.

    An exception that only says that another process has ended counts only if that process has left no traceback. The place is the innermost
    frame in `directory`, which contains the job's code, or the innermost of all frames if no frame is in `directory`.
    """
    reader = _Reader(lines)
    if reader.left_open():
        return None
    own = [each for each in reader.found if each.kind not in (*WRAPPERS, *GROUPS) and not each.is_of_thread]
    # Ranks that share a log lose their connections to the rank that failed first, or wait for it in vain.
    ended = {each.prefix: each for each in own if RANK_ENDED.search(each.prefix)}.values()
    first = [each for each in ended if not error_messages.is_about_another_process(each.origin().message)]
    chosen = next((each for each in (*first[:1], *own[-1:], *reader.found[-1:]) if reader.is_last(each)), None)
    return _describe(chosen.origin(), directory) if chosen else None


def failed_child(lines: Sequence[str]) -> FailedChild | None:
    """Return how the process ended whose end has ended the program, such as a launcher, or None if the log does not say so.

    If programs have started each other, the result is about the last of them.
    """
    reader = _Reader(lines)
    own = next((index for index in range(len(reader.found), 0, -1) if reader.found[index - 1].kind not in WRAPPERS), 0)
    found = reader.found[own] if own < len(reader.found) else None
    if found is None or not reader.is_last(found):
        return None
    code = _return_code([found.message, *lines[found.last : found.last + CHILD_LINES]])
    return FailedChild(code, found.first) if code else None


def _return_code(message: Sequence[str]) -> int:
    """Return the return code of a process in the message about its end, or 0 if the message does not contain it."""
    code = 0
    for text in message:
        named, status = CHILD_SIGNAL.search(text), CHILD_STATUS.search(text)
        if named and named["name"] in signal.Signals.__members__:
            code = -signal.Signals[named["name"]]
        elif status:
            code = int(status["code"])
        elif HEAD in text:
            break
    return code


def error_before_abort(lines: Sequence[str], directory: str) -> ScriptError | None:
    """Return the script's exception whose message the C++ runtime repeats when it aborts the process, or None.

    After an error on a GPU, the script raises an exception. While Python exits, a thread of torch's NCCL backend can find the same error,
    and abort the process.
    """
    last = next((index for index in reversed(range(len(lines))) if TERMINATED in lines[index]), 0)
    found = _Reader(lines[:last]).found[-1:]
    error = _describe(found[0], directory) if found else None
    return error if error and error.message and any(error.message in line for line in lines[last : last + NCCL_LINES]) else None


def abort_message(lines: Sequence[str]) -> str:
    """Return the message of the exception because of which the C++ runtime aborted the process, or else the first message about a time-out
    of collective operations, after which torch aborts the process, or else the last message with which absl aborts a process, or an empty
    string.
    """
    last = next((index for index in reversed(range(len(lines))) if TERMINATED in lines[index]), len(lines))
    prefix, _words, message = "".join(lines[last : last + 1]).partition(TERMINATED)
    rest = [line[len(prefix) :] for line in lines[last + 1 : last + NCCL_LINES] if line.startswith(prefix)]
    message = _most_precise(message, rest) or next(filter(error_messages.is_timeout, lines), "").rpartition(STATUS)[2]
    message = message or next(filter(FATAL_LOG.match, reversed(lines)), "")
    return message[:MESSAGE_LIMIT]


def crash_place(lines: Sequence[str], directory: str) -> str:
    """Return where a Python process was when a signal killed it, such as `train.py, line 42`, or an empty string if that is unknown.

    Python writes its stack to the log if PYTHONFAULTHANDLER is set.
    """
    last = next((index for index in reversed(range(len(lines))) if FATAL in lines[index]), None)
    return "" if last is None else place(current_thread(lines[last + 1 :]), directory)


def current_thread(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the frames of the current or main thread as paths and lines, innermost first, as in the output of py-spy and faulthandler.

    If the current thread does not run Python, faulthandler marks no thread. The main thread is the last one.
    """
    frames: list[tuple[str, str]] = []
    is_new = is_current = True
    for line in lines:
        found = next((match for match in (frame.match(line) for frame in STACK_FRAMES) if match), None)
        if found:
            frames, is_new = [*([] if is_new else frames), (found["path"], found["line"])], False
        elif THREAD.match(line):
            if is_current and not is_new:
                break
            is_new, is_current = True, bool(CURRENT.match(line))
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


def usage_error(lines: Sequence[str], status: int | None) -> str:
    """Return the error about the script's arguments at the end of the log of a process with this exit status, or an empty string."""
    pattern = USAGE_ERRORS.get(status or 0)
    last = list(filter(None, map(str.rstrip, lines[-USAGE_LINES:])))
    errors = [(index, match) for index, match in enumerate(map(pattern.match, last)) if match] if pattern else []
    usages = [index for index, line in enumerate(last) if USAGE.match(line)]
    if not errors or not usages or len(last) - max(errors[-1][0], usages[-1]) > LINES_AFTER_USAGE:
        return ""
    index, found = errors[-1]
    rest = itertools.takewhile(lambda line: line.startswith(USAGE_REST), last[index + 1 :])
    return " ".join(filter(None, [(found["message"] or "").strip(), *(line.strip(" │|─") for line in rest)]))[:MESSAGE_LIMIT]


def _describe(found: _Traceback, directory: str) -> ScriptError:
    return ScriptError(found.kind, place(found.frames[::-1], directory), found.message[:MESSAGE_LIMIT])
