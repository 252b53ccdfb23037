# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a job is called, where its files are, and what state its records say it is in."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Iterable, NamedTuple, Sequence

Record = Dict[str, Any]

# A DNS label: it fits unit names, slices (where "-" would nest, see slice_name), directories and host names alike.
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED, LOST = "pending", "running", "succeeded", "failed", "stopped", "lost"


def check_name(name: str) -> str:
    """Return the job's name. Raises ValueError when it is not one."""
    if not NAME.fullmatch(name):
        raise ValueError(f"name {name!r} is not a job name: use 1 to 63 lower-case letters, digits and dashes, with no dash first or last")
    return name


def slice_name(job: str) -> str:
    """Return the job's systemd slice.

    A dash in a slice's name makes it the child of another one, so that stopping job "digits" would stop "digits-2" too;
    names of jobs hold no underscore, so the replacement is unambiguous.
    """
    return "deeplearning-{}.slice".format(job.replace("-", "_"))


def unit_name(job: str, rank: int) -> str:
    """Return the systemd service of one process of the job."""
    return f"deeplearning-{job}-rank{rank}.service"


class Paths(NamedTuple):
    """Where a job's files are on the shared storage; C(directory) is the job's own."""

    directory: str

    @property
    def code(self) -> str:
        return os.path.join(self.directory, "code")

    @property
    def description(self) -> str:
        return os.path.join(self.directory, "job.json")

    @property
    def logs(self) -> str:
        return os.path.join(self.directory, "logs")

    @property
    def status(self) -> str:
        return os.path.join(self.directory, "status")

    @property
    def checkpoints(self) -> str:
        return os.path.join(self.directory, "checkpoints")

    @property
    def tensorboard(self) -> str:
        return os.path.join(self.directory, "tensorboard")

    @property
    def progress(self) -> str:
        return os.path.join(self.directory, "progress.jsonl")

    def log(self, rank: int) -> str:
        """Return the file with the output of one process."""
        return os.path.join(self.logs, f"rank{rank}.log")

    def record(self, rank: int) -> str:
        """Return the file with the state of one process."""
        return os.path.join(self.status, f"rank{rank}.json")


def environment(job: str, paths: Paths) -> dict[str, str]:
    """Return what every process of a job finds in its environment, whatever the launcher."""
    return {
        "DEEPLEARNING_JOB": job,
        "DEEPLEARNING_JOB_DIRECTORY": paths.directory,
        "DEEPLEARNING_CHECKPOINT_DIRECTORY": paths.checkpoints,
        "DEEPLEARNING_TENSORBOARD_DIRECTORY": paths.tensorboard,
        "DEEPLEARNING_PROGRESS": paths.progress,
        "PYTHONUNBUFFERED": "1",
    }


def read_records(paths: Paths) -> list[Record]:
    """Return the records of the job's processes in the order of their ranks; unreadable ones are left out."""
    records = []
    for name in _listing(paths.status):
        if re.fullmatch(r"rank\d+\.json", name):
            try:
                with open(os.path.join(paths.status, name), encoding="utf-8") as file:
                    records.append(json.load(file))
            except (OSError, ValueError):
                continue
    return sorted(records, key=lambda record: record["rank"])


def _listing(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def process_state(record: Record, now: float, heartbeat_timeout: float) -> str:
    """Return the state of one process: what it recorded, or C(lost) when a running one has been silent for too long (seconds)."""
    state: str = record["state"]
    return LOST if state == RUNNING and now - record["heartbeat"] > heartbeat_timeout else state


def job_state(states: Sequence[str], processes: int) -> str:
    """Return the state of a job of so many processes from the states of those that have recorded one."""
    for state in (FAILED, LOST, STOPPED):
        if state in states:
            return state
    if states and len(states) == processes and all(state == SUCCEEDED for state in states):
        return SUCCEEDED
    return RUNNING if states else PENDING


def first_failure(processes: Iterable[Record]) -> Record | None:
    """Return the process that ended a job that did not succeed.

    The others fail because of the first one, so the earliest that failed is meant; then one that was lost or stopped.
    """
    by_state: dict[str, list[Record]] = {}
    for process in processes:
        by_state.setdefault(process["state"], []).append(process)
    for state, moment in ((FAILED, "finished"), (LOST, "heartbeat"), (STOPPED, "finished")):
        if state in by_state:
            return min(by_state[state], key=lambda process: (process[moment], process["rank"]))
    return None


def describe_end(process: Record) -> str:
    """Return how a process ended, in words."""
    if process["state"] == LOST:
        return "has not been heard of since {}".format(process["heard"])
    if process.get("reason"):
        return str(process["reason"])
    if process.get("signal"):
        return "was killed by signal {}".format(process["signal"])
    return "ended with exit status {}".format(process.get("exit_code"))


def read_progress(path: str, offset: int) -> tuple[list[Record], int]:
    """Return the complete progress lines from C(offset) (bytes) on, and the offset to read from next.

    A line that is not a JSON object is the script's mistake and is skipped.
    """
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    complete = data[: data.rfind(b"\n") + 1]
    entries = []
    for line in complete.splitlines():
        try:
            entry = json.loads(line.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries, offset + len(complete)


def tail(path: str, lines: int, limit: int = 16384) -> list[str]:
    """Return the last lines of a text file, from at most C(limit) bytes of it."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []


def progress_line(entry: Record) -> str:
    """Return a progress entry as people read it: C(step 20/100, loss 0.31)."""
    rest = dict(entry)
    parts = []
    if "step" in rest:
        step, steps = rest.pop("step"), rest.pop("steps", None)
        parts.append(f"step {step}" if steps is None else f"step {step}/{steps}")
    parts += [f"{key} {_number(value)}" for key, value in rest.items() if not isinstance(value, (dict, list))]
    return ", ".join(parts)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """Return a time span as people read it: C(42 s), C(3 min 5 s), C(2 h 4 min)."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return "{} min {} s".format(*divmod(whole, 60))
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def summary(found: Record, metrics: Record) -> list[str]:
    """Return the lines that tell how a job went, from what training_job_info found and the last values it reported."""
    processes = found["processes"]
    paths = Paths(found["directory"])
    end = max((process.get("finished", process["heartbeat"]) for process in processes), default=0.0)
    start = min((process["started"] for process in processes), default=end)
    hosts = list(dict.fromkeys(process["host"] for process in processes))
    rows = [
        ("hosts", "{} ({})".format(len(hosts), ", ".join(hosts))),
        ("last values", progress_line(metrics) or "the script reported none"),
        ("logs", paths.logs),
        ("checkpoints", paths.checkpoints),
        ("tensorboard", paths.tensorboard),
    ]
    head = "job {} {} after {}".format(found["name"], found["state"], duration(end - start))
    return [head] + [f"  {label:<12} {text}" for label, text in rows]


def failure_message(found: Record) -> str:
    """Return why a job did not succeed: the process that was first, where it ran, how it ended and what it said last."""
    failure = found["failure"]
    head = "job {} {}: rank {} on {} {}".format(found["name"], found["state"], failure["rank"], failure["host"], failure["how"])
    return "\n".join(["{}. The end of {}:".format(head, failure["log"]), *failure["lines"]])
