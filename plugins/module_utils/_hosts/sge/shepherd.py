# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Assigns GPUs to a job of Grid Engine, and then starts it. execd runs this program as root instead of sge_shepherd.

The current directory is the one that execd has created for a task of the job. The files in this directory belong to Grid Engine's
administrator, and no job's user can change them. CUDA_VISIBLE_DEVICES lists as many GPUs as the job requested (`-l gpu=`) for its slots on
this host. All tasks of a job on the host get the same GPUs, until execd deletes the directory of the job. This program needs only the
standard library.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import syslog

SHEPHERD = "/usr/lib/gridengine/sge_shepherd"
# The directory that contains a file for each GPU. Each file contains the path of the directory of the job that uses the GPU.
ASSIGNED = "/run/deeplearning-sge"

VARIABLE = "CUDA_VISIBLE_DEVICES"


def read(path: str) -> str:
    """Return the contents of a file, or an empty string if it does not exist."""
    try:
        with open(path, encoding="latin-1") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def requested(job: str, slots: int) -> int:
    """Return the number of GPUs for a job with this number of slots on this host. Raises OSError or ValueError."""
    done = subprocess.run(["timeout", "60", "/usr/bin/qstat", "-j", job], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ValueError(f"qstat -j {job} ended with exit status {done.returncode}")
    found = re.search(r"^hard resource_list:\s.*\bgpu=(\d+)", done.stdout, re.MULTILINE)
    return int(found[1]) * slots if found else 0


def assign(directory: str, count: int, gpus: int) -> list[int]:
    """Return the GPUs of the job with this directory, and record that the job uses them. Raises ValueError if too few GPUs are free."""
    os.makedirs(ASSIGNED, mode=0o755, exist_ok=True)
    with open(os.path.join(ASSIGNED, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        users = [read(os.path.join(ASSIGNED, str(gpu))) for gpu in range(gpus)]
        own = [gpu for gpu in range(gpus) if users[gpu] == directory]
        free = [gpu for gpu in range(gpus) if users[gpu] != directory and not (users[gpu] and os.path.isdir(users[gpu]))]
        if len(own) + len(free) < count:
            raise ValueError(f"the job needs {count} GPUs, but only {len(own) + len(free)} are free")
        for gpu in free[: max(count - len(own), 0)]:
            with open(os.path.join(ASSIGNED, str(gpu)), "w") as file:
                file.write(directory)
            own.append(gpu)
    return sorted(own)


def prepare(place: str, gpus: int) -> None:
    """Set the GPUs of the task whose directory is `place`. If that fails, the task gets no GPUs."""
    chosen: list[int] = []
    try:
        values = dict(re.findall(r"^(\w+)=(.*)$", read(os.path.join(place, "config")), re.MULTILINE))
        job, slots = values["job_id"], int(values.get("host_slots") or 1)
        # The directory of a task of a parallel job is in the directory of the job.
        directory = re.sub(r"(/active_jobs/[^/]+)/.*", r"\1", place)
        count = requested(job, max(slots, 1)) if gpus else 0
        chosen = assign(directory, count, gpus) if count else []
    except (KeyError, OSError, ValueError) as error:
        syslog.syslog(syslog.LOG_ERR, f"{place}: no GPUs: {error}")
    path = os.path.join(place, "environment")
    lines = [line for line in read(path).splitlines() if not line.startswith(VARIABLE + "=")]
    with open(path, "w", encoding="latin-1") as file:
        file.write("\n".join([*lines, "{}={}".format(VARIABLE, ",".join(map(str, chosen)))]) + "\n")


def main(gpus: int) -> None:
    """Set the GPUs of the task whose directory is the current directory, and become the task's shepherd. The host has `gpus` GPUs."""
    place, effective = os.getcwd(), os.geteuid()
    os.seteuid(0)  # execd has temporarily dropped root's privileges
    prepare(place, gpus)
    os.seteuid(effective)
    os.execv(SHEPHERD, [f"sge_shepherd-{os.path.basename(place)}", "-bg"])
