# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the metrics of a job to a file on the host of the job's first process, for the node_exporter of this host."""

from __future__ import annotations

import glob
import os
import sys
import threading
import time
from pathlib import Path

from ...._job.directories import Paths
from ...._job.documents import ProcessSpec
from ...._job.metrics import FILES, INTERVAL, MetricsFile
from ...._job.state_names import is_over
from ..files import goodput
from ..files.status import read_status

# The time in seconds after which a file counts as the file of an ended job. Running jobs write their files every INTERVAL seconds.
MAX_AGE = 86400.0


def start(spec: ProcessSpec) -> threading.Thread:
    """Update the file at regular intervals, in a thread, until this process ends. Before, delete the files of jobs that have ended.

    Reading the progress of a long job takes seconds, which must not delay heartbeats.
    """
    thread = threading.Thread(target=_update, args=(spec,), daemon=True)
    thread.start()
    return thread


def delete_old(directory: str, now: float) -> None:
    """Delete this user's metrics files that no job has written for MAX_AGE seconds. Errors are logged."""
    for path in glob.glob(os.path.join(glob.escape(directory), FILES)):
        try:
            found = os.lstat(path)
            if found.st_uid == os.geteuid() and found.st_mtime < now - MAX_AGE:
                os.unlink(path)
        except OSError as error:
            sys.stderr.write(f"cannot delete {path}: {error}\n")


def _update(spec: ProcessSpec) -> None:
    delete_old(spec["parameters"]["metrics_directory"], time.time())
    while True:
        write(spec)
        time.sleep(INTERVAL)


def write(spec: ProcessSpec, *, is_last: bool = False) -> None:
    """Write the file. If this is the last time, and the job is not over, delete the file instead. Errors are logged.

    Scripts can change the records from which the metrics are calculated, so any error is possible.
    """
    params, paths = spec["parameters"], Paths(spec["directory"])
    file = MetricsFile(Path(params["metrics_directory"]), spec["job"], params["cluster"])
    try:
        job = read_status(paths, params["heartbeat_timeout"])
        if is_last and not is_over(job["state"]):
            file.path.unlink(missing_ok=True)
            return
        job["goodput"], job["step_times"] = goodput.measure(paths, params["heartbeat_timeout"])[:2]
        file.write(job)
    except Exception as error:  # pylint: disable=broad-exception-caught
        sys.stderr.write(f"cannot write {file.path}: {error!r}\n")
