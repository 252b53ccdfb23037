# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Starts the supervisors of a job again on a host that has rebooted because of a health finding.

Root writes what it needs for this to the host's memory when the job starts. Before a reboot, the health service moves this file to the disk
(see _job/jobs_after_reboot.py). After the boot, systemd starts this program, which deletes the file before it uses it. The processes of
the job cannot read or change the file, which contains the job's secrets.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time
from typing import Any, Sequence, cast

from ...._job import jobs_after_reboot, recovery
from ...._job.definition.refusal import RefusalError
from ...._job.documents import ProcessSpec
from ... import transient_units
from ..units import launch, systemd

# The action of the supervisor's program that takes part in the recovery of an attempt that has ended.
ACTION = "rejoin"
# Seconds between two checks of whether the shared storage has been mounted.
INTERVAL = 1.0
ERRORS = (OSError, KeyError, ValueError, RefusalError, systemd.UnitError)


def start(job: str, document: dict[str, Any], end: float) -> None:
    """Start the supervisors of a job when its directory on the shared storage exists. Raises one of ERRORS.

    At `end` (in seconds since 1970), the other hosts of the job no longer wait.
    """
    specs = document["specs"]
    while not os.path.isdir(specs[0]["directory"]):
        if time.time() > end:
            raise OSError(f"{specs[0]['directory']} does not exist")
        time.sleep(INTERVAL)
    visible = systemd.Visible(*document["visible"])
    place = systemd.SupervisorAccount(pwd.getpwnam(document["user"]), document["python"], visible, document["is_sandboxed"])
    systemd.make_devices(run, sum(len(spec["gpus"]) for spec in specs))
    hindrance = systemd.refuse_nfs(run, place.user)
    if hindrance:
        sys.stderr.write(f"processes of the job can use NFS directly, because NFS could not be blocked: {hindrance}\n")
    with transient_units.exclusive():
        if not systemd.active_units(run, job):
            launch.check_place(job, specs)
            began = document.get("began", time.time())  # missing in files of older versions
            launch.save(job, place, specs, began)
            now = {"rejoins": True, "elapsed": max(0, int(time.time() - began))}
            systemd.start(run, job, place, [cast(ProcessSpec, {**spec, **now}) for spec in specs], ACTION)


def run(command: Sequence[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    return done.returncode, done.stdout, done.stderr


def take_kept() -> dict[str, tuple[bytes, float]]:
    """Return the contents of the files of jobs, and when the other hosts no longer wait, by the names of the jobs. Delete all files.

    A file that cannot be read is skipped with a message.
    """
    kept = {}
    try:
        for path in jobs_after_reboot.files(jobs_after_reboot.directory()):
            try:
                with open(path, "rb") as file:
                    kept[jobs_after_reboot.job_of(path)] = file.read(), os.fstat(file.fileno()).st_mtime + recovery.REBOOT_PATIENCE
            except OSError as error:
                sys.stderr.write(f"job {jobs_after_reboot.job_of(path)} is not started again on this host: {error}\n")
    finally:
        jobs_after_reboot.discard()
    return kept


def main(_arguments: Sequence[str]) -> int:
    for job, (content, end) in take_kept().items():
        try:
            if time.time() < end:
                start(job, json.loads(content), end)
        except ERRORS as error:
            sys.stderr.write(f"job {job} is not started again on this host: {error}\n")
    return 0
