# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What is known of a job by now, from its files on the shared storage. What it says about launchers comes from their code alone."""

from __future__ import annotations

import os
import time

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import messages
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records, states
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import Paths, Record
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Launcher
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.registry import LAUNCHERS

LOG_LINES = 40
# Bytes. Where ranks share a log, what the first to fail has said may lie well before its end.
TAIL_SIZE = 1 << 18


def look(paths: Paths, heartbeat_timeout: int, budget: records.Budget | None = None) -> Record:
    """Return the state of one job. Raises OSError or ValueError when the directory is not a job's.

    Records that are not valid, and those beyond the budget, are left out and named in C(problems).
    """
    description = records.read_description(paths)
    problems: list[str] = []
    launcher = LAUNCHERS.get(description["launcher"])
    now = time.time()
    # Before the records: those of a job that is over are then complete.
    verdict = records.read_verdict(paths, problems) or {}
    found = records.read_records(paths, problems, budget)
    processes = [describe(record, paths, now, heartbeat_timeout, launcher) for record in found]
    result = {
        "name": os.path.basename(paths.directory),
        **{key: description[key] for key in ("launcher", "created")},
        "script": description.get("script"),
        "command": description.get("command") or [],
        "code": description.get("code") or {},
        "metrics": messages.last_progress(paths.progress),
        "directory": paths.directory,
        "state": verdict.get("state") or records.job_state(processes),
        "process_count": processes[0]["processes"] if processes else 0,
        "processes": processes,
        "problems": problems,
    }
    first = verdict.get("failure") or (records.first_failure(processes) if not verdict else None)
    if first:
        first = {**first, "tag": tag(first, launcher)}
        result["failure"] = {**first, **last_words(first, paths.log(first["name"]), launcher)}
    return result


def tag(record: Record, launcher: Launcher | None) -> str:
    """Return how lines of a rank begin in a process's log, nothing where they cannot be told apart."""
    return launcher.tag if launcher and record.get("tagged") else ""


def last_words(process: Record, log: str, launcher: Launcher | None) -> Record:
    """Return C(how) a process ended and the last C(lines) of its C(log): those of the rank that failed first, where the log tells which.

    A process that was stopped has made no mistake that its lines could tell: there are none.
    """
    how, lines = records.describe_end(process), messages.tail(log, TAIL_SIZE)
    if process["state"] == states.STOPPED:
        return {"how": how, "log": log, "lines": []}
    asked = launcher and launcher.culprit and process["ranks"] and not process.get("reason")
    found = launcher.culprit(lines) if asked and launcher and launcher.culprit else None
    if found:
        cause = records.describe_end({"state": states.FAILED, **records.outcome(found.status)})
        if process["tag"]:
            how += f", because rank {found.rank} {cause}"
            said = messages.lines_of(found.rank, process["tag"], lines)
        else:
            how += "" if cause == how else f", because its script {cause}"
            said = lines[: found.line]
        lines = said or lines
    return {"how": how, "log": log, "lines": lines[-LOG_LINES:]}


def describe(record: Record, paths: Paths, now: float, heartbeat_timeout: int, launcher: Launcher | None) -> Record:
    """Return a process as its record tells, with its state by now."""
    state = records.process_state(record, now, heartbeat_timeout)
    return {**record, "state": state, "log": paths.log(record["name"]), "tag": tag(record, launcher)}
