# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Deletes the directories of jobs that ended long ago, with their checkpoints, logs and code."""

from __future__ import annotations

import contextlib
import os
import pwd
import time
from typing import Any, NamedTuple

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import users
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.states import FAILED, RUNNING, STOPPED, SUCCEEDED

DAY = 86400.0

# The prefix of the directories that a run is deleting. No job can have such a name, so no other module reads them.
DELETED = ".deleted-"


class CleanupError(Exception):
    """A job that was named cannot be deleted; the text says why and what to do."""


class Job(NamedTuple):
    """What decides whether a job is deleted. `last` is when it last gave a sign of life, in seconds since 1970."""

    name: str
    state: str
    created: float
    last: float
    python: str
    checkpoints: str


class Choice(NamedTuple):
    """The jobs to delete and the jobs to keep, the newest first."""

    delete: list[Job]
    keep: list[Job]


def read_jobs(directory: str, heartbeat_timeout: float, now: float) -> tuple[list[Job], list[str]]:
    """Return the jobs in a directory, the newest first, and messages about those that cannot be read."""
    jobs, problems = [], []
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        paths = records.Paths(os.path.join(directory, name))
        if not records.JOB_NAME.fullmatch(name):
            continue
        try:
            jobs.append(read_job(name, paths, heartbeat_timeout, now))
        except (FileNotFoundError, NotADirectoryError):
            continue  # not a job
        except (OSError, ValueError) as error:
            problems.append(f"job {name!r} in {directory} is kept: {error}")
    return sorted(jobs, key=lambda job: job.created, reverse=True), problems


def read_job(name: str, paths: records.Paths, heartbeat_timeout: float, now: float) -> Job:
    """Return one job. Raises OSError, ValueError."""
    description = records.read_description(paths)
    processes = [records.with_state(record, now, heartbeat_timeout) for record in records.read_records(paths)]
    verdict = records.read_verdict(paths)
    return Job(
        name,
        verdict["state"] if verdict else records.job_state(processes),
        description["created"],
        max([description["created"], *(process["heartbeat"] for process in processes)]),
        description.get("python") or "",
        description.get("checkpoint_directory") or paths.checkpoints,
    )


def choose(jobs: list[Job], directory: str, keep: int, before: float) -> Choice:
    """Choose the jobs that have given no sign of life since `before`, except the newest `keep` and those whose files others need."""
    return _choice(jobs, directory, {job.name for job in jobs[keep:] if job.state != RUNNING and job.last < before})


def choose_named(jobs: list[Job], directory: str, name: str, before: float) -> Choice:
    """Choose one job of any age that has ended. Raises CleanupError if there is none, or if it has not ended or is needed."""
    job = next((job for job in jobs if job.name == name), None)
    if job is None:
        raise CleanupError(f"job {name!r}: does not exist in {directory}. deeplearning.cluster.status lists the jobs.")
    # A lost process may still run on a host that the storage cannot be reached from.
    if job.state not in (SUCCEEDED, FAILED, STOPPED) and job.last >= before:
        raise CleanupError(f"job {name!r}: is {job.state}. Stop it with deeplearning.cluster.stop -e training_job_name={name}, or wait.")
    choice = _choice(jobs, directory, {name})
    if not choice.delete:
        users_of_it = ", ".join(other.name for other in jobs if other.name != name and _owner(other, directory) == name)
        raise CleanupError(f"job {name!r}: contains the checkpoints of {users_of_it}. Delete that first.")
    return choice


def _choice(jobs: list[Job], directory: str, chosen: set[str]) -> Choice:
    """Divide the jobs. A job is kept if a job that is kept has its checkpoints in its directory."""
    needed = chosen
    while needed:
        needed = chosen & {_owner(job, directory) for job in jobs if job.name not in chosen}
        chosen = chosen - needed
    return Choice([job for job in jobs if job.name in chosen], [job for job in jobs if job.name not in chosen])


def _owner(job: Job, directory: str) -> str:
    """Return the name of the job in whose directory the checkpoints of a job are, empty if they are elsewhere."""
    inside = os.path.relpath(job.checkpoints, directory) if os.path.isabs(job.checkpoints) else os.curdir
    return "" if inside.startswith(os.pardir) else inside.split(os.sep)[0]


def unfinished(directory: str) -> list[str]:
    """Return the paths of the directories that an interrupted run has begun to delete."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return sorted(os.path.join(directory, name) for name in names if name.startswith(DELETED))


def hide(directory: str, name: str) -> str:
    """Rename a job's directory, so that a job that is half deleted is never listed. Return its path. Raises as delete()."""
    path, going = os.path.join(directory, name), os.path.join(directory, DELETED + name)
    users.as_user(_account(path), lambda: os.rename(path, going))
    return going


def delete(path: str, patience: float) -> None:
    """Delete a job's directory within `patience` seconds. Raises OSError, users.UserError, users.FailedWorkError.

    Its files belong to the login user and to the job's user, and root may have no rights on shared storage. So each of the two deletes
    what it can.
    """
    owner = _account(path)
    with contextlib.suppress(OSError, users.FailedWorkError):
        users.as_user(_account(records.Paths(path).logs), lambda: records.delete([path]), patience=patience)
    users.as_user(owner, lambda: records.delete([path]), patience=patience)


def _account(path: str) -> pwd.struct_passwd:
    """Return the account that owns a path, without following links. Raises OSError, users.UserError."""
    number = os.lstat(path).st_uid
    try:
        return pwd.getpwuid(number)
    except KeyError:
        raise users.UserError(
            f"{path} belongs to uid {number}, which is no user of this host. Create that user, or delete it by hand."
        ) from None


def clean_up(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Delete old jobs, or in check mode only choose them. Raises CleanupError for a named job, and as delete().

    Returns `jobs`, those that were deleted, `kept`, `pythons` of the jobs that are kept, and `problems`.
    """
    directory, now = params["directory"], time.time()
    jobs, problems = read_jobs(directory, params["heartbeat_timeout"], now)
    before = now - params["days"] * DAY
    name = params["name"]
    chosen = choose_named(jobs, directory, name, before) if name else choose(jobs, directory, params["keep"], before)
    left = unfinished(directory)
    if not check_mode:
        for path in left:
            delete(path, params["timeout"])
        for job in chosen.delete:
            delete(hide(directory, job.name), params["timeout"])
    return {
        "changed": bool(chosen.delete or left),
        "jobs": [{"name": job.name, "state": job.state, "last": job.last} for job in chosen.delete],
        "kept": [job.name for job in chosen.keep],
        "pythons": sorted({job.python for job in chosen.keep if job.python}),
        "problems": problems,
    }
