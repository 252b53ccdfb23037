# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the progress of the staging of a data set to a file."""

from __future__ import annotations

import json
import time
from typing import Any

from ..._files import replace_file
from . import s3

WRITE_EVERY = 1.0  # seconds


class StagingProgress:
    def __init__(self, path: str) -> None:
        self._path, self._written = path, float("-inf")
        self._part: dict[str, int] = {}

    def stage(self, stage: str, done: int = 0, total: int = 0) -> None:
        self._write({"stage": stage, "done": done, "total": total, **self._part})

    def part(self, number: int, count: int) -> None:
        """Record which of several sources the next stages process. If `count` is 0, the next stages process the entire data set."""
        self._part = {"source": number, "sources": count} if count else {}

    def moved(self, stage: str) -> s3.Report:
        def report(done: int, total: int) -> None:
            if time.monotonic() >= self._written + WRITE_EVERY:
                self.stage(stage, done, total)

        return report

    def end(self, **result: Any) -> None:
        self._write({"stage": "ended", **result})

    def _write(self, state: dict[str, Any]) -> None:
        self._written = time.monotonic()
        replace_file(self._path, json.dumps(state).encode())
