# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What is known of a job by now, from its files on the shared storage."""

from __future__ import annotations

import json
import re
import time

from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records, text
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import Paths, Record

LOG_LINES = 40
# Bytes. Where ranks share a log, what the first to fail has said may lie well before its end.
TAIL_SIZE = 1 << 18


def look(paths: Paths, heartbeat_timeout: int) -> Record:
    """Return the state of one job. Raises OSError or ValueError when the directory is not a job's."""
    with open(paths.description, encoding="utf-8") as file:
        description = json.load(file)
    now = time.time()
    # Before the records: those of a job that is over are then complete.
    verdict = records.read_json(paths.verdict) or {}
    processes = [describe(record, paths, now, heartbeat_timeout) for record in records.read_records(paths)]
    result = {
        **{key: description[key] for key in ("name", "script", "launcher", "created")},
        "command": description.get("command") or [],
        "code": description.get("code") or {},
        "metrics": text.last_progress(paths.progress),
        "directory": paths.directory,
        "state": verdict.get("state") or records.job_state(processes),
        "process_count": processes[0]["processes"] if processes else 0,
        "processes": processes,
    }
    first = verdict.get("failure") or (records.first_failure(processes) if not verdict else None)
    if first:
        result["failure"] = {**first, **last_words(first, paths.log(first["name"]))}
    return result


def last_words(process: Record, log: str) -> Record:
    """Return C(how) a process ended and the last C(lines) of its C(log): those of the rank that failed first, where the log tells which.

    A process that was stopped has made no mistake that its lines could tell: there are none.
    """
    how, lines = records.describe_end(process), text.tail(log, TAIL_SIZE)
    if process["state"] == records.STOPPED:
        return {"how": how, "log": log, "lines": []}
    end = "\n".join(lines)
    asked = process["culprit"] and not process.get("reason")
    found = re.search(process["culprit"], end) if asked else None
    if found:
        cause = records.describe_end({"state": records.FAILED, **records.outcome(int(found["status"]))})
        if process["tag"]:
            how += ", because rank {} {}".format(found["rank"], cause)
            said = text.lines_of(found["rank"], process["tag"], lines)
        else:
            how += "" if cause == how else f", because its script {cause}"
            said = end[: found.start()].splitlines()
        lines = said or lines
    return {"how": how, "log": log, "lines": lines[-LOG_LINES:]}


def describe(record: Record, paths: Paths, now: float, heartbeat_timeout: int) -> Record:
    """Return a process as its record tells, with its state by now."""
    return {**record, "state": records.process_state(record, now, heartbeat_timeout), "log": paths.log(record["name"])}
