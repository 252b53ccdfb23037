# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs programs as transient services of systemd, which outlive the module that starts them and its connection."""

from __future__ import annotations

import contextlib
import fcntl
import time
from typing import Callable, Iterator, List, NamedTuple, Sequence, Tuple

from .._job import directories

# A function, such as AnsibleModule.run_command, that runs a command and returns its exit status, output and errors.
RunCommand = Callable[[List[str]], Tuple[int, str, str]]

# Seconds to wait while another playbook run starts units.
PATIENCE = 120.0


class UnitError(Exception):
    """A systemd command failed. The message contains the command and the error."""


class TransientUnit(NamedTuple):
    """A service: its name, description and program, and other properties, such as `User` and `Slice`."""

    name: str
    description: str
    program: Sequence[str]
    properties: Sequence[str] = ()

    def command(self, *options: str) -> list[str]:
        """Return the command that starts the unit with options of systemd-run, and ends once systemd has executed the unit's program."""
        settings = [f"--unit={self.name}", f"--description={self.description}", *(f"--property={each}" for each in self.properties)]
        return ["systemd-run", "--quiet", *options, "--service-type=exec", *settings, *self.program]

    def start(self, run: RunCommand, *, is_kept: bool = False) -> None:
        """Start the unit. If `is_kept` is true, systemd remembers that the unit has failed, until its next start. Raises UnitError."""
        if is_kept:
            run(["systemctl", "reset-failed", self.name])  # this command fails unless an earlier unit has failed
        status, _output, error = run(self.command(*([] if is_kept else ["--collect"])))
        if status:
            raise UnitError(f"systemd-run could not start {self.name}: {error.strip()}")


@contextlib.contextmanager
def exclusive(path: str = "") -> Iterator[None]:
    """Hold the lock at `path`. The default is the lock under which a module run checks for a job's units and starts them.

    Without the lock, two controllers could start the same job. Raises UnitError if a different module run holds the lock for too long.
    """
    end = time.monotonic() + PATIENCE
    with directories.open_lock(path) as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise UnitError(
                        f"another playbook run has held {lock.name} for {PATIENCE:.0f} s. Wait until that run ends, or stop it."
                    ) from None
                time.sleep(0.1)
        yield


def unit_state(run: RunCommand, name: str) -> str:
    """Return whether a unit is `active`, has `failed` or is `inactive`. Raises UnitError."""
    found = systemctl(run, "show", "--property=ActiveState", "--value", name).strip()
    return found if found in ("failed", "inactive") else "active"


def systemctl(run: RunCommand, *arguments: str) -> str:
    """Run systemctl, and return its output. Raises UnitError."""
    status, output, error = run(["systemctl", *arguments])
    if status:
        raise UnitError(f"systemctl {' '.join(arguments)} failed: {error.strip()}")
    return output
