# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs one process of a job and keeps its record and log; the program inside every unit of a job.

``run SPEC`` starts the process that the JSON file SPEC describes and exits as it does. ``finish SPEC`` is for systemd, which
calls it when the unit is over: it completes the record where the supervisor itself was killed and could not.
It is copied to the hosts as it stands and needs the standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict

HEARTBEAT_INTERVAL = 5.0

Spec = Dict[str, Any]


class Supervisor:
    """One process, from its start to its final record.

    A spec holds C(argv), C(environment), C(cwd), C(log), C(record) (paths), C(rank), C(processes) (of the job),
    C(host), C(time_limit) (seconds or null) and C(stop_timeout) (seconds between SIGTERM and SIGKILL).
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.child: subprocess.Popen[bytes] | None = None
        self.reason = ""
        self.kill_at: float | None = None
        self.record: dict[str, Any] = {
            "rank": spec["rank"],
            "processes": spec["processes"],
            "host": spec["host"],
            "pid": os.getpid(),
            "state": "running",
            "started": time.time(),
        }

    def run(self) -> int:
        """Run the process to its end and return the exit status for the unit."""
        for path in (self.spec["log"], self.spec["record"]):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        signal.signal(signal.SIGTERM, lambda *_: self.stop("was stopped"))
        self.beat()
        with open(self.spec["log"], "ab", buffering=0) as log:
            try:
                self.child = subprocess.Popen(
                    self.spec["argv"],
                    cwd=self.spec["cwd"],
                    env={**login_environment(), **self.spec["environment"]},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            except OSError as error:
                return self.end("failed", exit_code=127, reason=f"could not be started: {error}")
        if self.reason:
            self.stop(self.reason)
        return self.finished(self.wait(self.child))

    def stop(self, reason: str) -> None:
        """Ask the process to end; wait() kills it if it has not after the stop timeout."""
        self.reason = reason
        if self.child is not None and self.kill_at is None:
            self.kill_at = time.monotonic() + self.spec["stop_timeout"]
            self.child.terminate()

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """Return the process's return code (negative: the signal that ended it), with a heartbeat until then."""
        limit = self.spec["time_limit"]
        end = time.monotonic() + limit if limit else float("inf")
        while True:
            now = time.monotonic()
            if now >= end and self.kill_at is None:
                self.stop(f"reached its time limit of {limit} s")
            if self.kill_at is not None and now >= self.kill_at:
                child.kill()
            try:
                # Short, so that a signal that sets kill_at in the meantime is soon noticed.
                return child.wait(timeout=min(1.0, max(0.0, end - now) or 1.0))
            except subprocess.TimeoutExpired:
                if time.time() - self.record["heartbeat"] >= HEARTBEAT_INTERVAL:
                    self.beat()

    def finished(self, code: int) -> int:
        """Record how the process ended."""
        outcome: dict[str, Any] = {"signal": signal.Signals(-code).name} if code < 0 else {"exit_code": code}
        if self.reason == "was stopped":
            state = "stopped"
        elif self.reason or code:
            state = "failed"
        else:
            state = "succeeded"
        return self.end(state, reason=self.reason, **outcome)

    def end(self, state: str, **outcome: Any) -> int:
        """Write the final record and return the exit status for the unit."""
        self.record.update(state=state, finished=time.time(), **outcome)
        self.beat()
        if state == "stopped":
            return 0
        return outcome.get("exit_code") or (0 if state == "succeeded" else 1)

    def beat(self) -> None:
        """Write the record with the present time. A full or hanging storage must not end the training: the next beat tries again."""
        self.record["heartbeat"] = time.time()
        try:
            write_record(self.spec["record"], self.record)
        except OSError as error:
            sys.stderr.write("cannot write {}: {}\n".format(self.spec["record"], error))


def login_environment() -> dict[str, str]:
    """Return the environment of the user's login shell, as a script run by hand would have it (/etc/profile and the like)."""
    # Whatever the profile itself prints comes before the first NUL.
    command = ["/bin/bash", "--login", "-c", "printf '\\0'; exec env -0"]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return dict(os.environ)
    variables = dict(item.split("=", 1) for item in os.fsdecode(result.stdout).split("\0")[1:] if "=" in item)
    return {name: value for name, value in variables.items() if name not in ("_", "SHLVL", "PWD", "OLDPWD")}


def write_record(path: str, record: dict[str, Any]) -> None:
    """Replace a record in one step: readers on other hosts see the old one or the new one."""
    temporary = f"{path}.{socket.gethostname()}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(record, file)
    os.replace(temporary, path)


def finish(spec: Spec, result: str, status: str) -> None:
    """Complete the record of a unit whose supervisor could not. C(result) and C(status) are systemd's SERVICE_RESULT and EXIT_STATUS."""
    try:
        with open(spec["record"], encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        record = {"rank": spec["rank"], "processes": spec["processes"], "host": spec["host"], "state": "running", "started": time.time()}
    if record["state"] == "running":
        now = time.time()
        record.update(state="failed", finished=now, heartbeat=now, reason=f"was ended by the system: {result} ({status})")
        write_record(spec["record"], record)


def main(arguments: list[str]) -> int:
    action, path = arguments
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    if action == "run":
        return Supervisor(spec).run()
    finish(spec, os.environ.get("SERVICE_RESULT", ""), os.environ.get("EXIT_STATUS", ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
