"""A pytest plugin that runs a part of the selected tests: those that follow the tests of the previous run, until a time limit.

A tracked file contains the name of the last test that passed, so that the runs on all machines together run all tests. A run goes on after
this test, and writes the name of its own last test. After a failure, the next run begins with the failed test.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

# How many tests of a file run before those of the next file. Tests of a file share hosts, and one file has a third of all tests.
CHUNK = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rotation", type=Path, metavar="FILE", help="file with the name of the last test that passed")
    parser.addoption("--seconds", type=float, help="time after which no other test starts")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.rotation:
        config.pluginmanager.register(Rotation(config.option.rotation, config.option.seconds))


class Rotation:
    """Selects the tests, and keeps the name of the last test that passed."""

    def __init__(self, file: Path, seconds: float) -> None:
        self._file, self._seconds = file, seconds
        self._end: float | None = None
        self._ran = self._left = 0
        self._has_failed = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        seen: Counter[Path] = Counter()

        def chunk(item: pytest.Item) -> int:
            seen[item.path] += 1
            return (seen[item.path] - 1) // CHUNK

        items.sort(key=chunk)
        last = self._file.read_text(encoding="utf-8").strip()
        start = next((number for number, item in enumerate(items, 1) if item.nodeid == last), 0)
        items[:] = items[start:] + items[:start]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        """Return True, so that the test does not run, if the time is over. The first test always runs."""
        self._end = self._end or time.monotonic() + self._seconds
        if self._ran and time.monotonic() >= self._end:
            self._left += 1
            return True
        self._ran += 1
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        report: pytest.TestReport = yield
        self._has_failed |= report.failed
        if report.when == "teardown" and not self._has_failed:
            self._file.write_text(f"{item.nodeid}\n", encoding="utf-8")
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"{self._ran} of {self._ran + self._left} tests ran. The next run goes on after those that passed.")
