# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs custom checks: executable files from a folder of the user's project."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from functools import partial
from typing import NamedTuple

from ..._common.node_health.check import ON_DEMAND, RESTART, Check, CheckedNode, Problem

# Maximum number of characters to read from the output. Only the first line is reported.
OUTPUT_LIMIT = 4096


class CustomCheck(NamedTuple):
    name: str
    content: bytes


def check(program: CustomCheck, seconds: int) -> Check:
    """Return the check that runs a program for at most `seconds`."""
    return Check(
        name=program.name,
        read=partial(execute, program, seconds),
        decide=decide,
        severities=(RESTART,),
        description="an executable file that the user provides",
        contexts=(ON_DEMAND,),
        limit=seconds + 2,  # so that execute() kills the program first and can then delete its file
        hanging=RESTART,
        as_user=True,
    )


def execute(program: CustomCheck, seconds: int, _node: CheckedNode) -> tuple[int, str]:
    """Run a program as the current user, in a temporary directory. Return the exit status and the first line of the output.

    If the program runs too long, it is killed together with the processes that it has started.
    """
    # Programs can be executed in a home directory. Hardened hosts do not allow programs to be executed in /tmp.
    directory = tempfile.mkdtemp(prefix=".deeplearning-health-", dir=os.path.expanduser("~"))
    try:
        path = os.path.join(directory, program.name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "wb") as file:
            file.write(program.content)
        return _execute(path, directory, seconds)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _execute(path: str, directory: str, seconds: int) -> tuple[int, str]:
    with tempfile.TemporaryFile(dir=directory) as output:
        process = subprocess.Popen(
            [path], cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL, f"no result within {seconds} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        lines = output.read(OUTPUT_LIMIT).decode("utf-8", "replace").strip().splitlines()
    return status, lines[0] if lines else f"exit status {status}"


def decide(result: tuple[int, str], _node: CheckedNode) -> list[Problem]:
    """Return the first line of the output as a problem unless the exit status is 0."""
    status, line = result
    return [(RESTART, line)] if status else []
