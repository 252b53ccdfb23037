"""A pytest plugin that runs, for about two minutes, those of the selected tests that have not run for longest.

A tracked file is the queue: it contains each test with its duration in seconds, the next one at the top. Tests that pass go to the end, so
the runs on all machines together run all tests, in as many runs as there are slices of two minutes. A test that fails stays at the top.
Durations are those of the last run. They, not the clock, decide how many tests run, so a busy machine runs as many as an idle one.

A test with parameters runs with one case, the one that follows its last one. If it has the mark `each_case`, each case has its own place.
With the mark `whole_file`, the tests of a file share a place and run together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

# The assumed duration of a test that has not run yet, in seconds.
UNKNOWN = 30


class Entry(NamedTuple):
    """A test in the queue: its duration in seconds, and its ID, with the case that has passed last."""

    seconds: int
    test: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rotation", type=Path, metavar="FILE", help="file with the queue of tests")
    parser.addoption("--seconds", type=int, help="how long the tests of a run may take, according to the file")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.rotation:
        config.pluginmanager.register(Rotation(config.option.rotation, config.option.seconds))


def read_queue(file: Path) -> list[Entry]:
    """Return the entries of the queue, the next one first."""
    lines = [line.strip().partition(" ") for line in file.read_text(encoding="utf-8").splitlines()]
    return [Entry(int(seconds), test) for seconds, _space, test in lines]


def slices(queue: Iterable[Entry], seconds: int) -> Iterator[list[Entry]]:
    """Split the queue into slices of at most `seconds`. A longer test is a slice of its own."""
    chosen: list[Entry] = []
    for entry in queue:
        if chosen and sum(each.seconds for each in chosen) + entry.seconds > seconds:
            yield chosen
            chosen = []
        chosen.append(entry)
    if chosen:
        yield chosen


class Rotation:
    """Selects the tests of the next slice, and moves those that pass to the end of the queue."""

    def __init__(self, file: Path, seconds: int) -> None:
        self._file, self._seconds = file, seconds
        self._queue: dict[str, Entry] = {}
        self._chosen: dict[str, list[pytest.Item]] = {}
        self._took: defaultdict[str, float] = defaultdict(float)
        self._passed: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            cases[place(item)].append(item)
        entries = {entry.test if entry.test in cases else entry.test.partition("[")[0]: entry for entry in read_queue(self._file)}
        new = {name: Entry(UNKNOWN, name) for name in cases if name not in entries}
        self._queue = {name: entry for name, entry in {**new, **entries}.items() if name in cases}
        count = len(next(slices(self._queue.values(), self._seconds), []))
        self._chosen = {name: following(cases[name], entry.test) for name, entry in list(self._queue.items())[:count]}
        items[:] = [item for chosen in self._chosen.values() for item in chosen]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] += report.duration
        if report.failed:
            self._passed.discard(report.nodeid)
        elif report.when != "teardown":
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        for name, items in self._chosen.items():
            cases = [item.nodeid for item in items]
            if self._passed.issuperset(cases):
                del self._queue[name]
                seconds = round(sum(self._took[case] for case in cases))
                self._queue[name] = Entry(max(seconds, 1), cases[0] if "::" in name else name)
        if self._passed:
            lines = [f"{entry.seconds:3} {entry.test}\n" for entry in self._queue.values()]
            self._file.write_text("".join(lines), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        count = len(list(slices(self._queue.values(), self._seconds)))
        terminalreporter.write_line(f"{len(self._chosen)} of {len(self._queue)} tests ran. {count} runs of {self._seconds} s run all.")


def place(item: pytest.Item) -> str:
    """Return the name of a test in the queue, which is a file, a function or a case."""
    if item.get_closest_marker("whole_file"):
        return item.nodeid.partition("::")[0]
    return item.nodeid if item.get_closest_marker("each_case") else item.nodeid.partition("[")[0]


def following(cases: list[pytest.Item], last: str) -> list[pytest.Item]:
    """Return what runs of the tests in one place: the case that follows the last one, or all tests of a file."""
    if cases[0].get_closest_marker("whole_file"):
        return cases
    number = next((number for number, case in enumerate(cases, 1) if case.nodeid == last), 0)
    return [cases[number % len(cases)]]
