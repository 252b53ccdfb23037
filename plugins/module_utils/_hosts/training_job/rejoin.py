# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Starts the supervisors of a job again on a host that has rebooted because of a health finding.

Root writes what it needs for this to the host's memory when the job starts. Before a reboot, the health service moves this file to the disk
(see _job/kept_jobs.py). After the boot, systemd starts this program, which deletes the file before it uses it. The processes of
the job cannot read or change the file, which contains the job's secrets.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time
from typing import Any, Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import kept_jobs, recovery
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.documents import ProcessSpec

# The action of the supervisor's program that takes part in the recovery of an attempt that has ended.
ACTION = "rejoin"
# Seconds between two checks of whether the shared storage has been mounted.
INTERVAL = 1.0
ERRORS = (OSError, KeyError, ValueError, systemd.UnitError)


def save(job: str, place: systemd.SupervisorAccount, specs: Sequence[ProcessSpec]) -> None:
    """Write how the job's processes were started on this host to a file that only root can read."""
    kept_jobs.delete_ended()
    document = {"user": place.user.pw_name, "python": place.python, "visible": place.visible, "specs": specs}
    kept_jobs.write(kept_jobs.STARTED, job, json.dumps(document).encode())


def start(job: str, document: dict[str, Any]) -> None:
    """Start the supervisors of a job when its directory on the shared storage exists. Raises one of ERRORS."""
    specs = document["specs"]
    end = time.monotonic() + recovery.REBOOT_PATIENCE
    while not os.path.isdir(specs[0]["directory"]):
        if time.monotonic() > end:
            raise OSError(f"{specs[0]['directory']} does not exist")
        time.sleep(INTERVAL)
    visible = systemd.Visible(*document["visible"]) if document["visible"] else None
    place = systemd.SupervisorAccount(pwd.getpwnam(document["user"]), document["python"], visible)
    systemd.make_devices(run, sum(len(spec["gpus"]) for spec in specs))
    hindrance = systemd.refuse_nfs(run, place.user)
    if hindrance:
        sys.stderr.write(f"processes of the job can use NFS directly, because NFS could not be blocked: {hindrance}\n")
    with systemd.exclusive():
        if not systemd.active_units(run, job):
            save(job, place, specs)
            systemd.start(run, job, place, specs, ACTION)


def run(command: Sequence[str]) -> tuple[int, str, str]:
    """Run a command, and return its exit status, output and errors."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    return done.returncode, done.stdout, done.stderr


def main(_arguments: Sequence[str]) -> int:
    for path in kept_jobs.files(kept_jobs.directory()):
        try:
            with open(path, encoding="utf-8") as file:
                is_recent = time.time() - os.fstat(file.fileno()).st_mtime < recovery.REBOOT_PATIENCE
                document = json.load(file)
            os.unlink(path)
            if is_recent:
                start(kept_jobs.job_of(path), document)
        except ERRORS as error:
            sys.stderr.write(f"job {kept_jobs.job_of(path)} is not started again on this host: {error}\n")
    return 0
