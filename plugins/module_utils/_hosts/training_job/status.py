# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the current status of a job from its files on the shared storage, and uses the launchers to find the cause of a failure."""

from __future__ import annotations

import os
import time
from typing import cast

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import logs, progress
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records, states
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.documents import (
    Failure,
    JobStatus,
    LastWords,
    ProcessStatus,
    Record,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import Paths
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Launcher
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.registry import LAUNCHERS

LOG_LINES = 40
# In bytes. If ranks share a log, the lines of the rank that failed first may be far from the end of the log.
TAIL_SIZE = 1 << 18


def read_status(paths: Paths, heartbeat_timeout: int, budget: records.Budget | None = None) -> JobStatus:
    """Return the status of one job. Raises OSError or ValueError if the directory is not a job directory.

    Invalid records and records beyond the size budget are skipped and reported in `problems`.
    """
    description = records.read_description(paths)
    problems: list[str] = []
    launcher = LAUNCHERS.get(description["launcher"])
    now = time.time()
    # Read the verdict before the records, so that the records of a finished job are complete.
    verdict = records.read_verdict(paths, problems)
    found = records.read_records(paths, problems, budget)
    processes = [describe(records.with_state(record, now, heartbeat_timeout), paths, launcher) for record in found]
    result: JobStatus = {
        "name": os.path.basename(paths.directory),
        "launcher": description["launcher"],
        "created": description["created"],
        "script": description.get("script"),
        "command": description.get("command") or [],
        "code": description.get("code") or {},
        "metrics": progress.last_progress(paths.progress),
        "directory": paths.directory,
        "checkpoint_directory": description.get("checkpoint_directory") or paths.checkpoints,
        "resume": description.get("resume"),
        "state": verdict["state"] if verdict else records.job_state(processes),
        "process_count": processes[0]["processes"] if processes else 0,
        "processes": processes,
        "problems": problems,
    }
    first = records.cause(processes, verdict["failure"]) if verdict else records.first_failure(processes)
    export = records.read_export(paths, heartbeat_timeout)
    if export:
        result["export"] = export
    if first:
        result["failure"] = describe_failure(describe(first, paths, launcher), launcher)
    return result


def describe_failure(process: ProcessStatus, launcher: Launcher | None) -> Failure:
    """Return the process that made the job fail, with a description of how it ended and its last log lines."""
    return cast(Failure, {**process, **last_words(process, process["log"], launcher)})


def tag(record: Record, launcher: Launcher | None) -> str:
    """Return the tag at the start of each rank's lines in the log of a process, or an empty string if the lines are not tagged."""
    return launcher.tag if launcher and record.get("tagged") else ""


def last_words(process: ProcessStatus, log: str, launcher: Launcher | None) -> LastWords:
    """Return `how` a process ended and the last `lines` of its `log`, if possible only lines of the rank that failed first.

    `lines` is empty for a process that was stopped, because its log does not show why the job failed, and for a rank that printed nothing.
    """
    how, lines = records.describe_end(process), logs.tail(log, TAIL_SIZE)
    if process["state"] == states.STOPPED:
        return {"how": how, "log": log, "lines": []}
    asked = launcher and launcher.culprit and process["ranks"] and (not process.get("reason") or records.OUT_OF_MEMORY in how)
    found = launcher.culprit(lines) if asked and launcher and launcher.culprit else None
    if found:
        cause = records.describe_outcome(records.outcome(found.status))
        # The other lines come from the launcher.
        if process["tag"]:
            how += f", because rank {found.rank} {cause}"
            lines = logs.lines_of(found.rank, process["tag"], lines)
        else:
            how += "" if how in (cause, f"{cause} {records.OUT_OF_MEMORY}") else f", because its script {cause}"
            lines = lines[: found.line]
    return {"how": how, "log": log, "lines": lines[-LOG_LINES:]}


def describe(record: Record, paths: Paths, launcher: Launcher | None) -> ProcessStatus:
    """Return a process's record with the path of its log and the tag of its lines."""
    return {**record, "log": paths.log(record["name"]), "tag": tag(record, launcher)}
