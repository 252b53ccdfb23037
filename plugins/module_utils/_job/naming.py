# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The names of jobs, and of their processes, units and slices."""

from __future__ import annotations

import re

# A DNS label, which is valid in the names of units, directories and hosts. For slices, see slice_name().
JOB_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

DEFAULT_USER = "deeplearning"

# Hyphens are not allowed. Otherwise, process "a-b" of job "x" and process "b" of job "x-a" would have the same unit name.
PROCESS_NAME = re.compile(r"[a-z]+[0-9]*")

# The ID of an EC2 instance. Hosts outside AWS have no such ID.
INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")

# Roles of processes: a job waits for its workers, does not wait for its services (parameter servers), and can lose spares (elastic jobs).
# Standby processes do not run the job's program. They reserve units for the processes of later attempts (`training_job_spares`).
WORKER, SERVICE, SPARE, STANDBY = "worker", "service", "spare", "standby"
MAY_BE_LOST = (SPARE, STANDBY)


def check_name(name: str, option: str = "name") -> str:
    """Return the name if it is a valid job name, otherwise raise ValueError. The message names the `option`."""
    if not JOB_NAME.fullmatch(name):
        raise ValueError(
            f"{option}: {name!r} is not a valid job name. Use 1 to 63 lowercase letters, digits and hyphens, with no hyphen at either end."
        )
    return name


# The systemd slice for all jobs on a host. Each job has a child slice.
JOBS_SLICE = "deeplearning.slice"


def slice_name(job: str) -> str:
    """Return the name of the job's systemd slice.

    A slice whose name contains a hyphen is the child of another slice. With hyphens, stopping job "digits" would also stop job "digits-2".
    Hyphens are therefore replaced with underscores. Job names contain no underscores, so the result is unambiguous.
    """
    return "deeplearning-{}.slice".format(job.replace("-", "_"))


def unit_name(job: str, process: str) -> str:
    return f"deeplearning-{job}-{process}.service"


def title(process: str) -> str:
    """Return a process's name as shown in messages, such as `rank 3` for `rank3`."""
    return re.sub(r"(?<=[a-z])(?=[0-9])", " ", process)
