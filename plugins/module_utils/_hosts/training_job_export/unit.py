# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the export of a job on this host as a transient systemd unit, as the job's user and in the same sandbox as jobs.

The unit is not in the job's slice, because the export continues after the job has ended or was stopped.
"""

from __future__ import annotations

import json
import os
import pwd
import sys

from ..._job import directories
from .. import programs
from ..training_job.units import local_code, systemd
from ..transient_units import RunCommand, TransientUnit, UnitError, systemctl, unit_state
from . import exporter

PROPERTIES = (
    # At shutdown, the export ends before the shared storage is unmounted.
    "After=remote-fs.target",
    "TimeoutStopSec=10",
    # The export program holds all files of a batch open at the same time.
    f"LimitNOFILE={8 * exporter.BATCH_FILES}",
    # Training has priority.
    "CPUWeight=20",
    "IOWeight=20",
    # The credentials come from the instance's role. An earlier job may have written files with other credentials to the user's home
    # directory.
    "Environment=AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null LC_ALL=C.UTF-8",
    "RuntimeDirectoryMode=0700",
)
# Maximum duration of a plan in seconds.
PLAN_TIMEOUT = 600


def name(job: str, action: str) -> str:
    """Return the name of the unit. No job's unit has such a name, because job names contain no underscores."""
    return f"deeplearning_{action}-{job}.service"


def state(run: RunCommand, job: str) -> str:
    """Return the state of the unit that exports a job: `active`, `failed` or `inactive`. Raises UnitError."""
    return unit_state(run, name(job, "export"))


def start(run: RunCommand, job: str, spec: exporter.ExportSpec, user: pwd.struct_passwd) -> None:
    """Start the export of a job. Raises UnitError."""
    _unit(job, "export", "run", spec, user).start(run, is_kept=True)


def plan(run: RunCommand, job: str, spec: exporter.ExportSpec, user: pwd.struct_passwd) -> str:
    """Return what the export program prints about the files that it would upload. Raises UnitError."""
    unit = _unit(job, "export_plan", "plan", spec, user, f"RuntimeMaxSec={PLAN_TIMEOUT}")
    status, output, error = run(unit.command("--collect", "--wait", "--pipe"))
    if status:
        raise UnitError(f"{unit.name} failed: {error.strip()[-1000:]}")
    return output


def stop(run: RunCommand, job: str) -> None:
    """Stop the export of a job. Raises UnitError."""
    systemctl(run, "stop", name(job, "export"))


def _unit(job: str, action: str, command: str, spec: exporter.ExportSpec, user: pwd.struct_passwd, *limits: str) -> TransientUnit:
    """Write the program to the unit's runtime directory, and return the unit, which runs a command of the program."""
    directory = _directory(job, action)
    os.makedirs(os.path.dirname(directory), mode=0o755, exist_ok=True)
    directories.delete([directory])
    os.mkdir(directory, 0o700)
    contents = {"exporter.zip": programs.build("_hosts.training_job_export.exporter"), "spec.json": json.dumps(spec).encode()}
    systemd.write_files(directory, contents, user)
    interpreters = (sys.executable, os.path.realpath(sys.executable))
    visible = systemd.Visible(
        read=[os.path.dirname(os.path.dirname(path)) for path in interpreters],
        write=[local_code.storage_of_jobs(spec["directory"])],
    )
    program = [sys.executable, os.path.join(directory, "exporter.zip"), command, os.path.join(directory, "spec.json")]
    own = [f"User={user.pw_name}", f"Slice={systemd.SLICE}", "RuntimeDirectory=" + os.path.relpath(directory, "/run")]
    properties = [*own, *PROPERTIES, *limits, *systemd.sandbox(visible)]
    return TransientUnit(name(job, action), f"Export of training job {job}", program, properties)


def _directory(job: str, action: str) -> str:
    return f"/run/deeplearning/{action}s/{job}"
