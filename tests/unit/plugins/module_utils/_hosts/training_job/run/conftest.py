"""What tests of supervisors share."""

from __future__ import annotations

import json
import sys
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import programs
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd

from unit.plugins.module_utils._job.definition.parameters import DEFAULTS

# The options of a job that is not restarted and has no checks for hangs.
OPTIONS = {**DEFAULTS, "restarts": 0, "hang_steps": 0, "hang_minimum": 0, "health_check": False, "cost_limit": {}, "cluster": "demo"}


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The program file of the supervisor, as it is copied to hosts."""
    path = tmp_path_factory.mktemp("program") / "supervisor.zip"
    path.write_bytes(programs.compiled(systemd.SUPERVISOR))
    return path


@pytest.fixture
def make_spec(tmp_path):
    def make(code, *arguments, **changes):
        spec = {
            "job": "digits",
            "name": "rank1",
            "rank": 1,
            "ranks": [1],
            "tagged": False,
            "part": "worker",
            "processes": 2,
            "lead": "rank0",
            "daemons": {},
            "key": "",
            "directory": str(tmp_path),
            "host": "deeplearning-worker2",
            "instance": "i-0123456789abcdef0",
            "capacity_end": 0.0,
            "argv": [sys.executable, "-u", "-c", code, *arguments],
            "environment": {},
            "cwd": str(tmp_path),
            "programs": "/opt/pytorch/bin",
            "elapsed": 0,
            "own_profile": False,
            "peers": ["deeplearning-worker2", "10.0.0.2"],
            "attempt": 1,
            "slot": 0,
        }
        spec["parameters"] = {**OPTIONS, **{name: value for name, value in changes.items() if name not in spec}}
        spec.update((name, value) for name, value in changes.items() if name in spec)
        path = tmp_path / "spec.json"
        path.write_text(json.dumps(spec))
        return path

    return make


def record(tmp_path):
    return json.loads((tmp_path / "status/rank1.json").read_text())


def others_record(tmp_path, name, state, **more):
    now = time.time()
    rank = int(name[-1])
    entry = {"name": name, "rank": rank, "ranks": [rank], "host": "deeplearning-worker1", "part": "worker", "processes": 2, "state": state}
    (tmp_path / "status").mkdir(exist_ok=True)
    (tmp_path / f"status/{name}.json").write_text(json.dumps({**entry, "started": now, "finished": now, "heartbeat": now, **more}))
