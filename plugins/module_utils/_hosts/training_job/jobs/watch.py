# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the status, the new log lines and the new progress of one job to a controller that follows the job."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Sequence

from ...._job import directories, job_states, records
from ...._job.goodput import ALWAYS, ENDED
from ...._job.job_status import JobStatus, Log, Logs, ProcessStatus
from ...._job.state_names import QUEUED, is_over
from ..files import checkpoint_files, goodput, logs, progress
from ..files.status import quiet, read_status

# Maximum total size of all logs in one response, and the smallest limit for a single log, both in bytes.
LOGS_LIMIT = 1 << 20
LOG_LIMIT = 1 << 12

# Maximum number of logs, of hosts with their goodput or step time, of ranks and of arguments in one response. Scripts can make these lists
# long, and the controller accepts a limited number of values.
LOGS, HOSTS, RANKS, ARGUMENTS = 1000, 1100, 1 << 13, 1000

# Seconds between two polls of a running job, and between two polls of a job that waits in a queue.
INTERVAL, QUEUE_INTERVAL = 0.5, 5.0


class NoProcessError(Exception):
    """The job has no process with the given name. The message lists the job's processes."""


def watch(paths: directories.Paths, params: dict[str, Any], complete: Callable[[list[JobStatus]], None]) -> JobStatus:
    """Return the status of one job with its progress, as soon as there is something new or after `wait` seconds.

    New progress and log lines are collected for `hold` seconds, unless the job ends or a new attempt begins.
    If the job waits in a queue, `complete` extends the job's status with the information from the queue.
    """
    began = time.monotonic()
    end, held_until = began + params["wait"], began + params["hold"]
    result = _poll(paths, params, complete)
    first = result["attempt"]
    while not result["over"] and time.monotonic() < end:
        is_held = time.monotonic() < held_until and result["attempt"] == first
        if not is_held and (result["progress"] or result.get("logs")):
            break
        time.sleep(QUEUE_INTERVAL if result["state"] == QUEUED else INTERVAL)
        result = _poll(paths, params, complete)
    if params["goodput"] == ALWAYS or (result["over"] and params["goodput"] == ENDED):
        result["goodput"], result["step_times"] = goodput.measure(paths, params["heartbeat_timeout"])[:2]
    _describe(result)
    shorten(result)
    return result


def _poll(paths: directories.Paths, params: dict[str, Any], complete: Callable[[list[JobStatus]], None]) -> JobStatus:
    """Return the current status of a job with the new progress and the new log lines."""
    # Read the status before the progress, so that the progress of a finished job is complete.
    result = read_status(paths, params["heartbeat_timeout"], attempt=params["attempt"])
    complete([result])
    result["progress"], result["progress_offset"] = progress.read_progress(paths.progress, params["progress_offset"])
    if params["log_lines"] is not None:
        new = read_logs(result["processes"], params, result["attempt"])
        result["logs"], result["log_offsets"] = new["logs"], new["log_offsets"]
    result["over"] = is_over(result["state"])
    return result


def shorten(result: JobStatus) -> None:
    """Shorten lists of a job's status that may be too long for the controller."""
    result["command"] = result["command"][:ARGUMENTS]
    processes = result["processes"]
    for process in processes:
        process["ranks"] = process["ranks"][: max(1, RANKS // len(processes))]
    if "goodput" in result:
        result["goodput"]["hosts"] = result["goodput"]["hosts"][:HOSTS]
        result["step_times"] = result["step_times"][:HOSTS]


def _describe(result: JobStatus) -> None:
    """Add whether a failed job has a checkpoint, or for how long a running job has shown no activity."""
    place = result.get("checkpoint_directory", "")
    if "failure" in result and os.path.isabs(place):
        result["has_checkpoint"] = checkpoint_files.has_complete(place)
    if not result["over"]:
        result["quiet"] = quiet(result, time.time())


def read_logs(processes: Sequence[ProcessStatus], params: dict[str, Any], attempt: int = 1) -> Logs:
    """Return the new lines of the logs of an attempt, and the offsets for the next poll. Raises NoProcessError.

    A caller that has read the logs of an earlier attempt gets the complete logs of the next attempt.
    """
    asked = params["log_process"]
    wanted = [process for process in processes if asked in (None, process["name"], *map(str, process["ranks"]))]
    if processes and not wanted and len(job_states.participants(processes)) == processes[0]["processes"]:
        raise NoProcessError(_no_process(processes, params["name"], str(asked)))
    limit = max(LOG_LIMIT, LOGS_LIMIT // max(1, len(wanted)))
    most = max(1, records.LINES_LIMIT // max(1, len(wanted)))
    found: list[Log] = []
    offsets: dict[str, int] = {}
    for process in wanted:
        key = process["name"] if attempt == 1 else f"attempt{attempt}/{process['name']}"
        offset = params["log_offsets"].get(key, 0 if attempt > 1 and params["log_offsets"] else None)
        log, offsets[key] = _read_log(process, params, offset, limit, most)
        if log["lines"]:
            found.append(log)
        if len(found) == LOGS:
            break
    return {"logs": found, "log_offsets": offsets}


def _no_process(processes: Sequence[ProcessStatus], job: str, asked: str) -> str:
    if asked.isdecimal():
        option, names = "rank", [str(rank) for process in processes for rank in process["ranks"][:8]]
    else:
        option, names = "process", [process["name"] for process in processes]
    return f"{option}: job {job} has no {option} {asked!r}. Specify one of {', '.join(names)}."


def _read_log(process: ProcessStatus, params: dict[str, Any], offset: int | None, limit: int, most: int) -> tuple[Log, int]:
    """Return the new lines of a log, at most `most`, and the offset for the next poll. If `offset` is None, return the last lines."""
    asked = params["log_process"]
    lines, following, left_out = logs.read_log(process["log"], int(offset or 0), limit, is_over(process["state"]))
    if process["tag"] and asked not in (None, process["name"]):
        lines = logs.lines_of(asked, process["tag"], lines)
    if offset is None:
        lines, left_out = lines[max(0, len(lines) - params["log_lines"]) :], 0
    left_out += sum(len(line) + 1 for line in lines[:-most])
    return {"name": process["name"], "path": process["log"], "lines": lines[-most:], "left_out": left_out}, following
