# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs checks concurrently. Each reading runs in a child process with a time limit.

A process that waits for storage or a driver may ignore all signals. Such a process is abandoned. An abandoned process does not hold open
the connection to the controller or anything else that the parent process waits for.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import signal
import time
from typing import Any, Callable, Iterator, NoReturn, Sequence

from ..._common.node_health.check import MONITOR, SEVERITIES, Check, CheckedNode, HealthFinding, Problem, shortened

# Maximum size of a child's result in bytes, maximum number of problems per check, and maximum length of a message in characters.
ANSWER_LIMIT, PROBLEM_LIMIT = 1 << 20, 20

# The messages about a check that could not run.
FAILURE, NO_RESULT, NO_ANSWER = "The check failed: ", "The check ended without a result.", ": no answer within "


class _Reading:
    """A child process that reads the state of the host for one or more checks."""

    def __init__(self, checks: Sequence[Check], node: CheckedNode) -> None:
        self.checks = checks
        self.deadline = time.monotonic() + max(check.limit for check in checks)
        self.reader, writer = os.pipe()
        self._output = b""
        self.is_answered = False
        self._child = os.fork()
        if not self._child:
            os.close(self.reader)
            _read_and_exit(checks, node, writer)
        os.close(writer)

    def receive(self) -> bool:
        """Receive a part of the result and return whether the result is complete or too long."""
        part = os.read(self.reader, 1 << 16)
        self._output += part
        self.is_answered = not part
        if len(self._output) > ANSWER_LIMIT:
            self._output, self.is_answered = b"", True
        return self.is_answered

    def end(self) -> None:
        """Kill the child and its own children. A process that cannot be killed is abandoned."""
        os.close(self.reader)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._child, signal.SIGKILL)  # if the child has not become the leader of its process group yet
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._child, os.WNOHANG)

    def findings(self) -> Iterator[HealthFinding]:
        """Yield the findings of the checks, or a single finding if the reading did not end in time."""
        if not self.is_answered:
            first = max(self.checks, key=lambda check: SEVERITIES.index(check.hanging))
            reason = first.why_slow()
            message = f"{first.subject or first.name}{NO_ANSWER}{first.limit:g} s. {reason}".strip()
            yield HealthFinding(first.name, MONITOR if reason else first.hanging, message)
            return
        try:
            answer = json.loads(self._output)
        except ValueError:
            answer = {check.name: [[MONITOR, NO_RESULT]] for check in self.checks}
        for check in self.checks:
            for severity, message in answer[check.name]:
                yield HealthFinding(check.name, severity, message)


class Readings:
    """Running checks, which all start at the same time. On exit from this context, checks that are still running are killed."""

    def __init__(self, checks: Sequence[Check], node: CheckedNode) -> None:
        self.checks = list(checks)
        self._order = [check.name for check in checks]
        self._readings: list[_Reading] = []
        groups: dict[Any, list[Check]] = {}
        for check in checks:
            groups.setdefault(check.read, []).append(check)
        try:
            for group in groups.values():
                self._readings.append(_Reading(group, node))
        except OSError:
            self.__exit__()
            raise

    def __enter__(self) -> Readings:
        return self

    def __exit__(self, *_error: object) -> None:
        for reading in self._readings:
            reading.end()

    def findings(self, chosen: Callable[[Check], bool] = lambda check: True) -> list[HealthFinding]:
        readings = [reading for reading in self._readings if any(map(chosen, reading.checks))]
        _wait(readings)
        found = (finding for reading in readings for finding in reading.findings())
        return sorted(found, key=lambda finding: self._order.index(finding.check))


def run(checks: Sequence[Check], node: CheckedNode) -> list[HealthFinding]:
    """Return the findings of the checks, in the order of the checks. Each reading runs no longer than the check's limit."""
    with Readings(checks, node) as readings:
        return readings.findings()


def _wait(readings: Sequence[_Reading]) -> None:
    """Wait until each reading has ended or timed out.

    A result that a child returned in time is received even if this process reads the result late.
    """
    waiting = {reading.reader: reading for reading in readings if not reading.is_answered}
    while waiting:
        pause = min(reading.deadline for reading in waiting.values()) - time.monotonic()
        ready = select.select(list(waiting), [], [], max(pause, 0.0))[0]
        now = time.monotonic()
        for reader, reading in list(waiting.items()):
            if reading.receive() if reader in ready else reading.deadline <= now:
                del waiting[reader]


def _read_and_exit(checks: Sequence[Check], node: CheckedNode, writer: int) -> NoReturn:
    """Read the state of the host, write the problems from each check to the pipe, and exit."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):  # otherwise, ssh would wait until every process that holds the connection open has ended
            os.dup2(null, standard)
        if checks[0].as_user:
            _become(node.user)
        answer = _problems(checks, node)
        with open(writer, "w", encoding="utf-8") as stream:
            json.dump(answer, stream)
    finally:
        os._exit(0)


def _become(user: str) -> None:
    """Drop all privileges except those of the user."""
    account = pwd.getpwnam(user)
    if os.geteuid() != account.pw_uid:
        os.initgroups(user, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
        os.environ.update(HOME=account.pw_dir, USER=user, LOGNAME=user)


def _problems(checks: Sequence[Check], node: CheckedNode) -> dict[str, list[Problem]]:
    """Return the problems that each check finds. If a check cannot run, the error is the only problem reported for the check."""
    try:
        if checks[0].read is None:
            raise AssertionError("the check reads nothing")
        reading = checks[0].read(node)
    except Exception as error:
        return {check.name: [_failure(error)] if check is checks[0] else [] for check in checks}
    problems: dict[str, list[Problem]] = {}
    for check in checks:
        try:
            found = check.decide(reading, node)[:PROBLEM_LIMIT]
            problems[check.name] = [(severity, shortened(message)) for severity, message in found]
        except Exception as error:
            problems[check.name] = [_failure(error)]
    return problems


def _failure(error: Exception) -> Problem:
    return MONITOR, shortened(f"{FAILURE}{type(error).__name__}: {error}.")


def is_failure(finding: HealthFinding) -> bool:
    """Return whether the check could not run, so that its finding says nothing about the host."""
    return finding.message == NO_RESULT or finding.message.startswith(FAILURE) or NO_ANSWER in finding.message
