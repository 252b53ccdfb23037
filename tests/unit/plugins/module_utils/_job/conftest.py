"""Records of processes, and the files of a job."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories

ENDED = {
    "name": "rank0",
    "rank": 0,
    "ranks": [0],
    "part": "worker",
    "host": "w1",
    "processes": 1,
    "state": "failed",
    "started": 1.0,
    "heartbeat": 1000.0,
    "finished": 900.0,
}
DECISION = {"rule": "same_hosts", "decided": 1000.0}
CAUSE = {"kind": "exit_status", "what": "exit status 1"}


def record(rank):
    return {"ranks": [rank], "processes": 2, **process(rank, "running"), "heartbeat": 1.0, "finished": None}


def process(rank, state, finished=None, **more):
    return {
        "rank": rank,
        "name": f"rank{rank}",
        "part": "worker",
        "host": f"w{rank + 1}",
        "state": state,
        "finished": finished,
        "started": 0.0,
        "heartbeat": finished or 5.0,
        **more,
    }


def killed_by(name):
    return {"kind": "signal", "what": f"signal {name}", "name": name}


TIMED_OUT = {"kind": "hang", "what": "a time-out of ALLREDUCE with SeqNum 57", "message": "[Rank 0] Watchdog caught ..."}


@pytest.fixture
def job(tmp_path):
    (tmp_path / "digits/status").mkdir(parents=True)
    return directories.Paths(str(tmp_path / "digits"))


def write(path, document):
    with open(path, "w") as file:
        file.write(document if isinstance(document, str) else json.dumps(document))


ENTRY = {"queue": "slurm", "id": "7", "submitted": 5.0}
