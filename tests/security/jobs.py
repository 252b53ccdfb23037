"""Job directories with records that hosts could have written."""

from __future__ import annotations

import functools
import json

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs import listing
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.queue import queries

DESCRIPTION = {"name": "honest", "script": "train.py", "launcher": "torchrun", "created": 1790000000.0}
RECORD = {
    "name": "rank0",
    "rank": 0,
    "ranks": [0],
    "tagged": False,
    "part": "worker",
    "host": "deeplearning-worker1",
    "processes": 1,
    "state": "failed",
    "started": 1790000000.0,
    "heartbeat": 1790000009.0,
    "finished": 1790000009.0,
    "exit_code": 1,
}

# Completes the states of jobs in queues, in the same way as on a host without queues.
COMPLETE = functools.partial(queries.complete, queries.run)


class Jobs:
    """A directory of jobs. The method `list` reads it in the same way as the module training_job_info."""

    def __init__(self, directory):
        self.directory = directory

    def add(self, name, description=None, **found):
        description = DESCRIPTION if description is None else description
        folder = self.directory / name
        (folder / "status").mkdir(parents=True)
        (folder / "logs").mkdir()
        (folder / "job.json").write_text(description if isinstance(description, str) else json.dumps(description))
        for process, record in found.items():
            (folder / f"status/{process}.json").write_text(record if isinstance(record, str) else json.dumps(record))
        return folder

    def list(self):
        jobs, problems = listing.list_jobs({"directory": str(self.directory), "heartbeat_timeout": 60}, COMPLETE)
        return {job["name"]: job for job in jobs}, problems
