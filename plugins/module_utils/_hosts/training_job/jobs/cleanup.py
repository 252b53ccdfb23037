# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Deletes the directories of jobs that ended long ago, including their checkpoints, logs and code."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Collection, NamedTuple

from ...._job import directories, job_states, naming, records
from ...._job.state_names import FAILED, LOST, PENDING, QUEUED, RUNNING, STOPPED, SUCCEEDED
from ..units import users

DAY = 86400.0

# The prefix of job directories that are being deleted. No job can have such a name, so no other module reads these directories.
DELETED = ".deleted-"

# Why a named job in another state than a final one may still be needed, and what to do.
REFUSALS = {
    LOST: "Its hosts have sent no heartbeat for a while, but may still run it. If they do not, add -e cleanup_days=0",
    PENDING: f"It was prepared less than {job_states.START_TIMEOUT // 60} minutes ago, so a run may be about to start it. If no run is, "
    "add -e cleanup_days=0",
}


class CleanupError(Exception):
    """The named job cannot be deleted. The message states the reason and the remedy."""


class CleanupCandidate(NamedTuple):
    """The properties that determine whether a job is deleted.

    `last` is the time of the job's last heartbeat in any attempt, or of its creation if it has sent no heartbeat, in seconds since 1970.
    """

    name: str
    state: str
    created: float
    last: float
    python: str
    checkpoints: str
    printed: bool


class Choice(NamedTuple):
    """The jobs to delete and the jobs to keep, both newest first."""

    delete: list[CleanupCandidate]
    keep: list[CleanupCandidate]


def read_jobs(
    directory: str, heartbeat_timeout: float, now: float, running: Collection[str] = ()
) -> tuple[list[CleanupCandidate], list[str]]:
    """Return the jobs in a directory, newest first, and messages about those that cannot be read.

    The jobs in `running` have active units, so they count as running, regardless of what their files say.
    """
    jobs, problems = [], []
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        paths = directories.Paths(os.path.join(directory, name))
        if not naming.JOB_NAME.fullmatch(name):
            continue
        try:
            job = read_job(name, paths, heartbeat_timeout)
            jobs.append(job._replace(state=RUNNING, last=now) if name in running else job)
        except (FileNotFoundError, NotADirectoryError):
            continue  # not a job
        except (OSError, ValueError) as error:
            problems.append(f"job {name!r} in {directory} is kept, because it cannot be read: {error}")
    return sorted(jobs, key=lambda job: job.created, reverse=True), problems


def read_job(name: str, paths: directories.Paths, heartbeat_timeout: float) -> CleanupCandidate:
    """Return one job. Raises OSError or ValueError."""
    description = records.read_description(paths)
    newest = records.newest_attempt(paths)
    verdict, processes = job_states.read_attempt(newest, heartbeat_timeout)
    state, queued = job_states.attempt_state(newest, processes, heartbeat_timeout, verdict), records.read_queued(paths)
    return CleanupCandidate(
        name,
        job_states.queued_state(state, queued),
        description["created"],
        max([description["created"], records.last_change(paths), *(process["heartbeat"] for process in processes)]),
        description.get("python") or "",
        description.get("checkpoint_directory") or paths.checkpoints,
        description.get("printed", False),
    )


def choose(jobs: list[CleanupCandidate], directory: str, keep: int, before: float) -> Choice:
    """Select the jobs without a heartbeat since `before`, except the newest `keep` jobs and the jobs whose files other jobs need."""
    return _choice(jobs, directory, {job.name for job in jobs[keep:] if job.state not in (RUNNING, QUEUED) and job.last < before})


def choose_named(jobs: list[CleanupCandidate], directory: str, name: str, before: float) -> Choice:
    """Select the named job, regardless of its age.

    Raises CleanupError if the job does not exist, has not ended, or is needed by another job.
    """
    job = next((job for job in jobs if job.name == name), None)
    if job is None:
        raise CleanupError(f"job {name!r} does not exist in {directory}. Run deeplearning.cluster.status to list the jobs.")
    latest = max(before, time.time() - job_states.START_TIMEOUT) if job.state == PENDING else before
    # A lost process may still be running on a host that cannot reach the storage.
    if job.state not in (SUCCEEDED, FAILED, STOPPED) and job.last >= latest:
        stop = f"Wait until it ends, or stop it with deeplearning.cluster.stop -e training_job_name={name}"
        raise CleanupError(f"job {name!r} is {job.state}. {REFUSALS.get(job.state, stop)}")
    choice = _choice(jobs, directory, {name})
    if not choice.delete:
        users_of_it = ", ".join(other.name for other in jobs if other.name != name and _owner(other, directory) == name)
        raise CleanupError(f"the directory of job {name!r} contains the checkpoints of {users_of_it}. Delete {users_of_it} first.")
    return choice


def _choice(jobs: list[CleanupCandidate], directory: str, chosen: set[str]) -> Choice:
    """Divide the jobs into those to delete and those to keep.

    A job that is selected for deletion is kept if its directory contains the checkpoints of a job that is kept.
    """
    needed = chosen
    while needed:
        needed = chosen & {_owner(job, directory) for job in jobs if job.name not in chosen}
        chosen = chosen - needed
    return Choice([job for job in jobs if job.name in chosen], [job for job in jobs if job.name not in chosen])


def _owner(job: CleanupCandidate, directory: str) -> str:
    """Return the name of the job whose directory holds this job's checkpoints, or an empty string if they are stored elsewhere."""
    inside = os.path.relpath(job.checkpoints, directory) if os.path.isabs(job.checkpoints) else os.curdir
    return "" if inside.startswith(os.pardir) else inside.split(os.sep)[0]


def reason_to_keep(
    job: CleanupCandidate, kept: list[CleanupCandidate], params: dict[str, Any], newest: Collection[str], before: float
) -> str:
    """Return why a job is kept. `newest` contains the names of the newest jobs, which are kept regardless of their age."""
    if params["name"]:
        return "not named"
    if job.state in (RUNNING, QUEUED):
        return job.state
    if job.name in newest:
        return f"among the {params['keep']} newest (cleanup_keep)"
    if job.last >= before:
        return f"ended less than {params['days']} days ago (cleanup_days)"
    needed_by = [other.name for other in kept if other is not job and _owner(other, params["directory"]) == job.name]
    return f"contains the checkpoints of {', '.join(needed_by)}"


def unfinished(directory: str) -> list[str]:
    """Return the paths of the directories that an interrupted run has begun to delete."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return sorted(os.path.join(directory, name) for name in names if name.startswith(DELETED))


def hide(directory: str, name: str) -> str:
    """Rename a job's directory, so that no partially deleted job is listed. Return the new path. Raises the same errors as delete()."""
    path, going = os.path.join(directory, name), os.path.join(directory, DELETED + name)
    users.as_user(users.owner(path), lambda: os.rename(path, going))
    return going


def delete(path: str, patience: float) -> None:
    """Delete a job's directory within `patience` seconds. Raises OSError, users.UserError or users.FailedWorkError.

    A job's files belong to the login user and to the job's user, and root may have no permissions on shared storage. Therefore, each of the
    two users deletes the files that it is allowed to delete.
    """
    owner = users.owner(path)
    with contextlib.suppress(OSError, users.FailedWorkError):
        users.as_user(users.owner(directories.Paths(path).logs), lambda: directories.delete([path]), patience=patience)
    users.as_user(owner, lambda: directories.delete([path]), patience=patience)


def clean_up(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Delete old jobs. In check mode, only select the jobs to delete.

    Returns the deleted `jobs`, the `kept` jobs, the `pythons` of the kept jobs, and `problems`. Raises CleanupError if the named job
    cannot be deleted, and the same errors as delete().
    """
    directory, now = params["directory"], time.time()
    if params["pending"]:
        return delete_pending(params, check_mode)
    jobs, problems = read_jobs(directory, params["heartbeat_timeout"], now, params["running"])
    before = now - params["days"] * DAY
    name = params["name"]
    chosen = choose_named(jobs, directory, name, before) if name else choose(jobs, directory, params["keep"], before)
    newest = {job.name for job in jobs[: params["keep"]]}
    left = unfinished(directory)
    if not check_mode:
        for path in left:
            delete(path, params["timeout"])
        for job in chosen.delete:
            delete(hide(directory, job.name), params["timeout"])
    return {
        "changed": bool(chosen.delete or left),
        "jobs": described(chosen.delete),
        "kept": [{"name": job.name, "reason": reason_to_keep(job, chosen.keep, params, newest, before)} for job in chosen.keep],
        "pythons": sorted({job.python for job in chosen.keep if job.python}),
        "problems": problems,
    }


def delete_pending(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Delete the named job if no process of it has started. Return the same as clean_up(), without the other jobs.

    Records that cannot be read are records of processes, too.
    """
    directory, name = params["directory"], params["name"]
    try:
        naming.check_name(name)
        paths = directories.Paths(os.path.join(directory, name))
        job = read_job(name, paths, params["heartbeat_timeout"])
        has_begun = name in params["running"] or bool(directories.listing(paths.status))
        found = [job] if job.state == PENDING and not job.printed and not has_begun else []
    except (OSError, ValueError):
        found = []  # not a job
    if found and not check_mode:
        delete(hide(directory, name), params["timeout"])
    return {"changed": bool(found), "jobs": described(found), "kept": [], "pythons": [], "problems": []}


def described(jobs: list[CleanupCandidate]) -> list[dict[str, Any]]:
    return [{"name": job.name, "state": job.state, "last": job.last} for job in jobs]
