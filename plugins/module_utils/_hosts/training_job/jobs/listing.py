# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lists the jobs in a directory, newest first, within a limit on the size of their records."""

from __future__ import annotations

import difflib
import json
import os
import time
from typing import Any, Callable, cast

from ...._job import directories, naming, records, schema
from ...._job.job_status import STATUS_COMMAND, JobStatus
from ...._job.state_names import is_over
from ...._text import clean_line
from ..files.status import quiet, read_status
from .watch import shorten

# Maximum total size, in bytes, of the records to read and return for a list of jobs. The controller accepts twice this size.
LISTING_LIMIT = 1 << 25
# Maximum number of values in a list of jobs. The controller accepts slightly more.
LISTING_VALUES = 240_000
# Maximum number of skipped files to name.
PROBLEMS_LIMIT = 20
# Maximum number of jobs to suggest in a message.
SHOWN_JOBS = 5


def list_jobs(params: dict[str, Any], complete: Callable[[list[JobStatus]], None]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return all jobs in the directory, newest first, and messages about the jobs and files that were skipped.

    Of the jobs that have ended, only the newest has its processes, because nobody needs the processes of all jobs.
    If a job waits in a queue, `complete` extends the job's status with the information from the queue.
    """
    jobs: list[dict[str, Any]] = []
    problems: list[str] = []
    left, values = LISTING_LIMIT, LISTING_VALUES
    for name in newest_first(params["directory"]):
        paths = directories.Paths(os.path.join(params["directory"], name))
        budget = records.Budget(min(left, records.JOB_LIMIT))
        try:
            naming.check_name(name)
            found = read_status(paths, params["heartbeat_timeout"], budget)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            if os.path.lexists(paths.description):
                problems.append(f"job {name!r} in {params['directory']} is skipped: {error}")
            continue
        problems += found.pop("problems")
        job = _entry(found, with_processes=not jobs or not is_over(found["state"]))
        size, count = max(len(json.dumps(job)), budget.size - budget.left), schema.count_values(job, LISTING_VALUES)
        if size > left or count > values:
            problems.append(
                f"job {name!r} in {params['directory']} is skipped: its records and those of newer jobs exceed {LISTING_LIMIT} bytes or "
                f"{LISTING_VALUES} values"
            )
        else:
            jobs.append(job)
            left, values = left - size, values - count
    complete(cast("list[JobStatus]", jobs))
    for job in jobs:
        job["over"] = is_over(cast(JobStatus, job)["state"])
        if not job["over"]:
            job["quiet"] = quiet(cast(JobStatus, job), time.time())
    return sorted(jobs, key=lambda found: found["created"], reverse=True), problems


def _entry(found: JobStatus, with_processes: bool) -> dict[str, Any]:
    shorten(found)
    if not with_processes:
        return {**found, "processes": []}
    return {**found, "processes": [{key: value for key, value in process.items() if key != "ranks"} for process in found["processes"]]}


def newest_first(directory: str) -> list[str]:
    """Return the names of all entries in a directory of jobs, newest job first, so that the size limit leaves out the oldest jobs."""
    times = {}
    for name in os.listdir(directory) if os.path.isdir(directory) else []:
        try:
            times[name] = os.stat(directories.Paths(os.path.join(directory, name)).description, follow_symlinks=False).st_mtime
        except OSError:
            times[name] = 0.0
    return sorted(times, key=lambda name: (-times[name], name))


def some(problems: list[str]) -> list[str]:
    """Return at most PROBLEMS_LIMIT problems as lines, followed by a line with the number of problems that are left out."""
    shown = [clean_line(problem) for problem in problems[:PROBLEMS_LIMIT]]
    rest = len(problems) - len(shown)
    return [*shown, f"{rest} more job files are skipped"] if rest else shown


def no_job(name: str, directory: str) -> str:
    """Return a message about a job that does not exist, with the names of similar jobs or, if there are none, of the newest jobs."""
    jobs = names_of_jobs(directory)
    similar = difflib.get_close_matches(name, jobs, n=SHOWN_JOBS)
    there = f"Did you mean {' or '.join(similar)}?" if similar else f"The newest jobs are {', '.join(jobs[:SHOWN_JOBS])}."
    return (
        f"training_job_name: there is no job {name!r} in {directory}. {there if jobs else 'There are no jobs yet.'} To list the jobs, run: "
        f"{STATUS_COMMAND}"
    )


def names_of_jobs(directory: str) -> list[str]:
    """Return the names of the jobs in a directory, newest first."""
    try:
        with os.scandir(directory) as entries:
            found = [(entry.stat(follow_symlinks=False).st_mtime, entry.name) for entry in entries if naming.JOB_NAME.fullmatch(entry.name)]
    except OSError:
        return []
    return [name for _changed, name in sorted(found, reverse=True)]
