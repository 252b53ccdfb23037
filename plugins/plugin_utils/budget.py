# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Limits what a host can cost a run, and what its results can cost the main process of Ansible, which serves all hosts.

Each value of a result costs the main process time and memory, because Ansible copies results for callbacks and for variables. Each message
and each line costs the main process time, and space on the terminal.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import constants

from ..module_utils._text import clean_line

# Maximum number of values in a result, as schema.count_values() counts them. The main process needs about 2 microseconds for each value.
VALUES = 100_000
# Maximum number of characters and lines to show from one result or one poll. The status of a job on 1000 hosts needs half of this. In
# addition, maximum number of characters in the log lines of one poll.
TEXT, LINES, LOG_TEXT = 1 << 17, 2500, 1 << 20
# Maximum number of messages to show from one result or one poll, and maximum number of characters in a message.
MESSAGES, MESSAGE = 20, 1000
# Maximum number of diffs in a result, and of lines in all of them. The time to compare two texts grows with the cube of their length.
DIFFS, DIFF_LINES = 100, 2000
TOO_LONG = "differs (too long to show)"
# Memory in bytes that a value needs in addition to its characters, and maximum memory for all results of a host in one run.
VALUE_SIZE, RUN_SIZE = 64, 128 << 20
# In one run, all responses of a host may together take as long as the answer timeout, plus this share of the time since the first response
# that counted. Responses that take less than this part of the answer timeout, 10 s by default, do not count.
WAITING_SHARE, SHORT_ANSWER = 0.5, 1 / 60


class Budget:
    """What the results of a host may still cost: messages and characters to show."""

    def __init__(self, messages: int = MESSAGES, text: int = TEXT, lines: int = LINES) -> None:
        self._messages, self._text, self._lines = messages, text, lines

    def messages(self, texts: Sequence[str], what: str) -> list[str]:
        """Return the first messages, each as one line without padding. If some are left out, a line such as `7 more warnings` follows."""
        shown = [" ".join(clean_line(self.cut(text[:MESSAGE])).split()) for text in texts[: self._messages]]
        self._messages -= len(shown)
        return [*shown, f"{len(texts) - len(shown)} more {what}"] if len(shown) < len(texts) else shown

    def cut(self, text: str) -> str:
        """Return a text, or its beginning and a note if it exceeds the budget."""
        shown = text[: self._text]
        self._text -= len(shown)
        return text if len(shown) == len(text) else f"{shown}... ({len(text) - len(shown)} more characters)"

    def lines(self, lines: Iterable[str]) -> str:
        """Return lines as one text. If lines exceed the budget, a line with their number follows.

        The main process shows one text in much less time than many lines.
        """
        shown, rest = [], 0
        for line in lines:
            self._lines -= 1
            if self._text <= 0 or self._lines < 0:
                rest += 1
            else:
                shown.append(self.cut(line))
                self._text -= 1
        return "\n".join([*shown, *([f"... ({rest} more lines)"] if rest else [])])

    def diffs(self, diffs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return diffs in the format of Ansible, with headers of one line. In place of a diff that exceeds the budget, callbacks show that
        the texts differ.
        """
        found, left = [], DIFF_LINES
        for diff in diffs[:DIFFS]:
            texts = [str(diff.get(name) or "") for name in ("before", "after", "prepared")]
            left -= sum(len(text.splitlines()) for text in texts)
            self._text -= sum(map(len, texts))
            headers = {name: clean_line(str(diff[name]))[:MESSAGE] for name in ("before_header", "after_header") if diff.get(name)}
            is_short = left >= 0 and self._text >= 0
            found.append({**diff, **headers} if is_short else {"prepared": f"{headers.get('after_header', '')} {TOO_LONG}\n".lstrip()})
        return found


def size_of(result: Mapping[str, Any]) -> int:
    """Return the approximate memory in bytes that the main process needs to keep a result."""
    text = json.dumps(result, default=str)
    return len(text) + VALUE_SIZE * (text.count(",") + text.count("["))


class RunBudget:
    """What a host has cost one run: the memory for its results, and the time for which the run has waited for it.

    Ansible keeps registered results until the run ends, and starts a new process for each task. The processes of a run share a directory.
    """

    def __init__(self, host: str) -> None:
        name = hashlib.sha256(host.encode("utf-8", "replace")).hexdigest()
        self._path = Path(constants.DEFAULT_LOCAL_TMP) / f"deeplearning-results-{name}"

    def used(self) -> int:
        """Return the memory in bytes that the results of the host need."""
        return int(self._read().get("size", 0))

    def add(self, size: int) -> None:
        self._write(size=self.used() + size)

    def waiting_left(self, patience: int) -> float:
        """Return the seconds for which the run may still wait for the host.

        Without other hosts that work in the meantime, the run waits for twice the answer timeout `patience` at most.
        """
        found = self._read()
        since = time.monotonic() - found["since"] if found.get("waited") else 0.0
        return float(patience + since * WAITING_SHARE - found.get("waited", 0))

    def add_waiting(self, seconds: float, patience: int) -> None:
        """Count the time until a response, in seconds."""
        counted = seconds - patience * SHORT_ANSWER
        if counted > 0:
            found = self._read()
            self._write(waited=found.get("waited", 0) + counted, since=found.get("since", time.monotonic() - seconds))

    def _read(self) -> dict[str, float]:
        try:
            return dict(json.loads(self._path.read_text(encoding="ascii")))
        except (FileNotFoundError, ValueError):
            return {}

    def _write(self, **values: float) -> None:
        self._path.write_text(json.dumps({**self._read(), **values}), encoding="ascii")
