# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Determines the checkpoint directory of a job. A job that continues an earlier job uses the directory of the earlier job."""

from __future__ import annotations

import os
import pwd
from typing import Any

from ...._job import directories, job_states, records
from ...._job.definition.refusal import EXPECTED, RefusalError
from ...._job.state_names import PENDING, RUNNING
from ..files import checkpoint_files
from . import users

VARIABLE = "DEEPLEARNING_CHECKPOINT_DIRECTORY"


def directory(params: dict[str, Any], paths: directories.Paths) -> str:
    """Return the directory for the checkpoints of a job with these module parameters. Raises RefusalError."""
    own = (params["environment"] or {}).get(VARIABLE)
    if own:
        return str(own)
    if not params["resume"]:
        return paths.checkpoints
    earlier = earlier_job(params, paths)
    try:
        # The earlier job may itself continue another job.
        return records.read_description(earlier).get("checkpoint_directory") or earlier.checkpoints
    except (OSError, ValueError) as error:
        raise RefusalError(f"resume: job {params['resume']!r} cannot be continued: {error}. Run status.yml to list the jobs.") from error


def keep_directory(params: dict[str, Any], paths: directories.Paths, user: pwd.struct_passwd) -> None:
    """Add the checkpoint directory of the earlier job to the environment, so that later attempts also use it.

    Raises UserError or FailedWorkError.
    """
    if params["resume"]:
        params["environment"] = {**params["environment"], VARIABLE: users.as_user(user, lambda: directory(params, paths), EXPECTED)}


def check_resume(params: dict[str, Any], paths: directories.Paths) -> None:
    """Raise RefusalError unless the earlier job has ended and has left a checkpoint from which this user can continue."""
    name = params["resume"]
    if not name:
        return
    if name == params["name"]:
        raise RefusalError(f"resume: job {name!r} cannot resume from itself. Choose another name for the new job.")
    place = directory(params, paths)
    if job_states.read_state(earlier_job(params, paths), params["heartbeat_timeout"]) in (PENDING, RUNNING):
        raise RefusalError(
            f"resume: job {name!r} has not ended. Wait until that job ends, or stop it with stop.yml -e training_job_name={name}"
        )
    if not os.path.isabs(place):
        return  # a location that only the script can access, such as an S3 URI
    if not is_complete(place):
        raise RefusalError(f"resume: job {name!r} has left no complete checkpoint in {place}. Start the job without resume.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise RefusalError(f"resume: user {params['user']!r} cannot write to {place}. Run the job as the user of job {name!r}.")


def is_complete(place: str) -> bool:
    """Return whether a directory contains a complete checkpoint.

    Checkpoint formats differ, so only the training script can determine which checkpoint is the newest.
    """
    return bool(checkpoint_files.complete(place))


def earlier_job(params: dict[str, Any], paths: directories.Paths) -> directories.Paths:
    return directories.Paths(os.path.join(os.path.dirname(paths.directory), params["resume"]))
