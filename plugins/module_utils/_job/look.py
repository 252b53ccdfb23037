# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What is known of a job by now, from its files on the shared storage."""

from __future__ import annotations

import json
import time

from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records, text
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import Paths, Record

# torchrun adds some thirty lines of its own below the script's error.
LOG_LINES = 40


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
        log = paths.log(first["name"])
        result["failure"] = {**first, "log": log, "how": records.describe_end(first), "lines": text.tail(log, LOG_LINES)}
    return result


def describe(record: Record, paths: Paths, now: float, heartbeat_timeout: int) -> Record:
    """Return a process as its record tells, with its state by now and in words."""
    state = records.process_state(record, now, heartbeat_timeout)
    words = "{} on {} {}".format(records.title(record["name"]), record["host"], state)
    return {**record, "state": state, "log": paths.log(record["name"]), "text": words}
