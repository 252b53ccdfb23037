# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What people see of a job: its progress, the end of its logs, its summary, why it failed."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import Paths, Record, title


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
    head = "job {} {}: {} on {} {}".format(found["name"], found["state"], title(failure["name"]), failure["host"], failure["how"])
    return "\n".join(["{}. The end of {}:".format(head, failure["log"]), *failure["lines"]])
