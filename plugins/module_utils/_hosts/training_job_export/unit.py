# Copyright: Contributors to the deeplearning.cluster project
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
from ..training_job.units.users import RunCommand
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
# The states of a unit that systemd is starting, running or stopping.
ACTIVE = ("active", "activating", "deactivating", "reloading")
# Maximum duration of a plan in seconds.
PLAN_TIMEOUT = 600


def name(job: str, action: str) -> str:
    """Return the name of the unit. No job's unit has such a name, because job names contain no underscores."""
    return f"deeplearning_{action}-{job}.service"


def state(run: RunCommand, job: str) -> str:
    """Return the state of the unit that exports a job: `active`, `failed` or `inactive`. Raises UnitError."""
    status, output, error = run(["systemctl", "show", "--property=ActiveState", "--value", name(job, "export")])
    if status:
        raise systemd.UnitError(f"systemctl show {name(job, 'export')} failed: {error.strip()}")
    found = output.strip()
    return "active" if found in ACTIVE else found


def start(run: RunCommand, job: str, spec: exporter.ExportSpec, user: pwd.struct_passwd) -> None:
    """Start the export of a job. Raises UnitError."""
    run(["systemctl", "reset-failed", name(job, "export")])  # this command fails unless an earlier export was killed
    command, program = _command(job, "export", spec, user)
    status, _unused, error = run([*command, "--service-type=exec", *program, "run", _spec_path(job, "export")])
    if status:
        raise systemd.UnitError(f"systemd-run could not start {name(job, 'export')}: {error.strip()}")


def plan(run: RunCommand, job: str, spec: exporter.ExportSpec, user: pwd.struct_passwd) -> str:
    """Return what the export program prints about the files that it would upload. Raises UnitError."""
    command, program = _command(job, "export_plan", spec, user)
    options = ["--collect", "--wait", "--pipe", f"--property=RuntimeMaxSec={PLAN_TIMEOUT}"]
    status, output, error = run([*command, *options, *program, "plan", _spec_path(job, "export_plan")])
    if status:
        raise systemd.UnitError(f"{name(job, 'export_plan')} failed: {error.strip()[-1000:]}")
    return output


def stop(run: RunCommand, job: str) -> None:
    """Stop the export of a job. Raises UnitError."""
    status, _unused, error = run(["systemctl", "stop", name(job, "export")])
    if status:
        raise systemd.UnitError(f"systemctl stop {name(job, 'export')} failed: {error.strip()}")


def _command(job: str, action: str, spec: exporter.ExportSpec, user: pwd.struct_passwd) -> tuple[list[str], list[str]]:
    """Write the program to the unit's runtime directory. Return the systemd-run command, and the command that runs the program."""
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
    command = ["systemd-run", "--quiet", f"--unit={name(job, action)}", f"--slice={systemd.SLICE}", f"--uid={user.pw_name}"]
    command.append(f"--description=Export of training job {job}")
    for setting in (*PROPERTIES, *systemd.sandbox(visible), "RuntimeDirectory=" + os.path.relpath(directory, "/run")):
        command.append("--property=" + setting)
    return command, [sys.executable, os.path.join(directory, "exporter.zip")]


def _directory(job: str, action: str) -> str:
    return f"/run/deeplearning/{action}s/{job}"


def _spec_path(job: str, action: str) -> str:
    return os.path.join(_directory(job, action), "spec.json")
