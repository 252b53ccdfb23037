# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""How processes and units end: the states and the causes to record.

The supervisor runs this code on hosts. It needs only the standard library.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from typing import NamedTuple

from ...._job import failure_causes
from ...._job.directories import Paths
from ...._job.documents import CauseRecord, ProcessSpec, Verdict
from ...._job.records import read_record, read_verdict, write_json, write_new_json
from ...._job.state_names import FAILED, STOPPED, SUCCEEDED, is_over
from . import connections
from .process_watch import first_record

# The message of a process that cannot listen on a port, such as that of torch: `port: 29500, ..., message: address already in use`.
IN_USE, LISTEN_PORT = re.compile(r"EADDRINUSE|[Aa]ddress already in use"), re.compile(r"(?:port:? ?|:)(\d{2,5})\b")
# systemd-user-sessions.service creates this file when the service is stopped. Units of jobs are ordered so that they are stopped after this
# service.
NOLOGIN = "/run/nologin"

# What systemctl prints about a host that is not shutting down, if systemctl can communicate with systemd.
ANSWERS = ("initializing", "starting", "running", "degraded", "maintenance")


class End(NamedTuple):
    """What to record for a process that was stopped: its state, and the cause of a failure or the process for whose failure it was stopped.
    A process that was `STOPPED` for no other process was stopped by an operator.
    """

    state: str
    cause: CauseRecord | None = None
    stopped_for: str = ""


FROM_OUTSIDE = End(STOPPED)
# The shutdown of a host counts as a failure. An elastic job continues without the host. Any other job fails on the other hosts as a result.
SHUT_DOWN = End(FAILED, {"kind": failure_causes.HOST_SHUT_DOWN})


def name_listener(found: CauseRecord) -> CauseRecord:
    """Return the cause of a failure. If the process could not listen on a port, the cause contains the process that does."""
    message = found.get("message", "")
    port = LISTEN_PORT.search(message) if IN_USE.search(message) else None
    listener = connections.listener(int(port[1])) if port else ""
    return {**found, "listener": listener, "port": int(port[1])} if port and listener else found


def is_shutting_down(nologin: str = NOLOGIN) -> bool:
    """Return whether systemd is shutting down this host.

    In the sandbox, systemctl cannot communicate with systemd. The file `nologin`, with which systemd prevents users from logging in, exists
    during a shutdown.
    """
    try:
        found = subprocess.run(
            ["systemctl", "is-system-running"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=False
        )
        state = found.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        state = ""
    return state == "stopping" or (state not in ANSWERS and os.path.exists(nologin))


def end_for(verdict: Verdict, process: str = "") -> End:
    """Return the end of a process that was still running when the job ended."""
    failure = verdict["failure"]
    if failure is None:
        return End(SUCCEEDED)
    cause = failure.get("cause")
    if failure["name"] == process and cause and cause["kind"] in (failure_causes.HANG, failure_causes.HEALTH, *failure_causes.ANNOUNCED):
        return End(FAILED, cause)
    return End(STOPPED, stopped_for=failure["name"])


def finish(spec: ProcessSpec, result: str, status: str) -> None:
    """Complete the record of a unit whose supervisor was killed. `result` and `status` are systemd's SERVICE_RESULT and EXIT_STATUS.

    The records are those of a new job if the job was deleted and started again with the same name while this host could not be reached.
    """
    paths = Paths(spec["directory"], spec["attempt"])
    record = read_record(paths.record(spec["name"])) or first_record(spec)
    if spec.get("rejoins") or record["host"] != spec["host"]:
        return
    if is_over(record["state"]):
        verdict = read_verdict(paths)
        if spec["parameters"]["restarts"] and record.get("available") is not False and (not verdict or verdict.get("restartable")):
            write_json(paths.record(spec["name"]), {**record, "available": False})
        return
    now = time.time()
    record = {**record, "state": FAILED, "finished": now, "heartbeat": now, "available": False}
    record["cause"] = {"kind": failure_causes.KILLED, "what": f"{result} ({status})"}
    write_json(paths.record(spec["name"]), record)
    if spec["name"] == spec["lead"]:
        verdict = {"state": FAILED, "failure": record}
        if spec["parameters"]["restarts"]:
            verdict["restartable"] = True
        write_new_json(paths.verdict, verdict)
