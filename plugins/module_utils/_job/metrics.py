# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the metrics of a job to a text file that the textfile collector of node_exporter reads for Prometheus.

Source of the format: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, Mapping, NamedTuple

from .._files import replace_file
from . import state_names
from .job_status import JobStatus

# Seconds between two updates of the file while the job runs.
INTERVAL = 60.0

# The pattern of the names of the files of all jobs.
FILES = "deeplearning-*.prom"

# Maximum number of hosts whose step times are in the file.
STEP_TIMES_LIMIT = 1 << 10


class Metric(NamedTuple):
    """A metric of a job: its name, its meaning and its values. Each value can have labels in addition to the job's labels."""

    name: str
    meaning: str
    values: list[tuple[Mapping[str, str], float]]


class MetricsFile:
    """The metrics file of one job in a directory. `cluster` is the name of the cluster, or an empty string."""

    def __init__(self, directory: Path, job: str, cluster: str) -> None:
        self.path = directory / FILES.replace("*", job)
        self._labels = {**({"cluster": cluster} if cluster else {}), "training_job": job}

    def write(self, job: JobStatus) -> None:
        """Replace the file atomically, if the status contains the metrics. Raises OSError."""
        if "goodput" not in job:
            return
        replace_file(self.path, "".join(line + "\n" for line in lines(metrics(job), self._labels)).encode(), 0o644)


def metrics(job: JobStatus) -> list[Metric]:
    found, running = job["goodput"], float(not state_names.is_over(job["state"]))
    buckets: list[tuple[Mapping[str, str], float]] = [({"bucket": bucket}, seconds) for bucket, seconds in found["buckets"].items()]
    times = job.get("step_times", [])[:STEP_TIMES_LIMIT]
    return [
        Metric("node_seconds", "What the hosts of the job spent their time on. The buckets add up to the time of all hosts.", buckets),
        Metric("goodput_ratio", "Share of the time of all hosts that was spent on training.", [({}, found["ratio"])]),
        Metric("nodes", "Number of hosts that the job has or had.", [({}, found["nodes"])]),
        Metric("attempts", "Number of attempts, which is 1 if the job was not restarted.", [({}, job["attempt"])]),
        Metric("running", "Whether the job is running or waiting.", [({}, running)]),
        Metric("step_seconds", "Median step time of a host, in seconds.", [({"host": each["name"]}, each["seconds"]) for each in times]),
    ]


def lines(found: list[Metric], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the file. All values are gauges, because a restart moves the time since the last heartbeat to a different
    bucket.
    """
    for metric in found:
        name = f"deeplearning_job_{metric.name}"
        if metric.values:
            yield f"# HELP {name} {metric.meaning}"
            yield f"# TYPE {name} gauge"
        for own, value in metric.values:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in {**labels, **own}.items())
            yield f"{name}{{{shown}}} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
