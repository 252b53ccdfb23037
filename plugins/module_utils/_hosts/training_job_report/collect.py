# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Collects the data for the report on a job."""

from __future__ import annotations

import time
from typing import Any, Callable

from ..._job import directories, records
from ..._job.job_status import JobStatus
from ..._job.state_names import is_over
from ..training_job.files import goodput, progress_times
from ..training_job.files.status import read_status
from . import curves, file_listing


def collect(paths: directories.Paths, heartbeat_timeout: int, complete: Callable[[list[JobStatus]], None]) -> dict[str, Any]:
    """Return the data for the report on a job.

    If the job waits in a queue, `complete` extends the job's status with the information from the queue.
    Raises OSError or ValueError if the directory is not a job directory.
    """
    # Read the status before the progress, so that the progress of a finished job is complete.
    job = read_status(paths, heartbeat_timeout)
    complete([job])
    processes = job["processes"]
    over = is_over(job["state"])
    starts = [attempt["started"] for attempt in job["attempts"] if attempt["started"]]
    start = min([*starts, *(process["started"] for process in processes)], default=job["created"])
    end = max((process.get("finished", process["heartbeat"]) for process in processes), default=start)
    measured = goodput.measure(paths, heartbeat_timeout)
    return {
        "job": {**job, "goodput": measured.goodput, "step_times": measured.step_times},
        "description": records.read_description(paths),
        "instances": measured.instances,
        "runs": [[run.start, run.end if over or run != measured.runs[-1] else time.time()] for run in measured.runs],
        "start": start,
        "end": end if over else time.time(),
        "over": over,
        "progress": curves.read(paths.progress, progress_times.read_notes(paths.progress_times), start, end),
        "code": file_listing.code(paths.code),
        "checkpoints": file_listing.newest(job.get("checkpoint_directory") or paths.checkpoints),
        "logs": file_listing.newest(paths.logs),
    }
