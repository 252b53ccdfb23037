# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the metrics of a job to a file on the controller.

A training script could forge files on the hosts and on the shared storage, including the metrics files of other jobs, but not this file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ..module_utils._job.goodput import ALWAYS
from ..module_utils._job.job_status import JobStatus
from ..module_utils._job.metrics import FILES, INTERVAL, MetricsFile


class JobMetrics(MetricsFile):
    """The metrics file of one job on the controller. Missing directories are created.

    The name of the file and the labels contain the account, the region and the cluster in `place`, because jobs of several clusters can
    have the same name.
    """

    def __init__(self, directory: str, job: str, place: Mapping[str, str]) -> None:
        super().__init__(Path(directory).expanduser().absolute(), job, "")
        self.path = self.path.with_name(FILES.replace("*", ".".join([*place.values(), job])))
        self._labels = {**place, **self._labels}
        self._due = 0.0

    def arguments(self) -> dict[str, str]:
        """Return the arguments that make training_job_info return the metrics, or no arguments until the next update of the file is due."""
        if time.monotonic() < self._due:
            return {}
        self._due = time.monotonic() + INTERVAL
        return {"goodput": ALWAYS}

    def write(self, job: JobStatus) -> None:
        """Replace the file atomically, if the result of training_job_info contains the metrics. Raises OSError."""
        if "goodput" in job:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        super().write(job)
