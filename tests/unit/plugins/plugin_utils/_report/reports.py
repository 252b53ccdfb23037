"""Input data for a report's page and events."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report.curves import JobProgress

START = 1_790_000_000.0


def process(rank, state="succeeded", **changes):
    return {
        "rank": rank,
        "name": f"rank{rank}",
        "part": "worker",
        "host": f"deeplearning-worker{rank + 1}",
        "state": state,
        "processes": 2,
        "started": START + rank,
        "heartbeat": START + 90,
        **({"finished": START + 90, "exit_code": 0} if state != "lost" else {}),
        **changes,
    }


def report(entries=(), processes=None, state="succeeded", arguments=("--epochs", "2"), **job):
    progress = JobProgress(START)
    for index, entry in enumerate(entries):
        progress.add(START + 10 + index, entry)
    listing = {
        "directory": "/efs/jobs/digits/code",
        "count": 1,
        "size": 2048,
        "files": [{"name": "train.py", "size": 2048, "changed": START}],
    }
    return {
        "job": {
            "name": "digits",
            "state": state,
            "directory": "/efs/jobs/digits",
            "created": START - 3,
            "launcher": "torchrun",
            "processes": [process(0), process(1)] if processes is None else processes,
            "process_count": 2,
            **job,
        },
        "description": {"script": "src/train.py", "python": "/opt/pytorch/bin/python", "arguments": list(arguments), "time_limit": 3600},
        "instances": [],
        "start": START,
        "end": START + 90,
        "over": state not in ("running", "pending"),
        "progress": progress.result(),
        "code": {**listing, "digest": "0123456789ab"},
        "checkpoints": {**listing, "count": 300},
        "logs": listing,
    }
