"""Actions without a host, a clock for them, and the output of actions that follow a job."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_watch


@pytest.fixture
def shown(monkeypatch):
    lines = []
    monkeypatch.setattr(job_watch.display, "display", lambda text, **_: lines.extend(text.split("\n")))
    monkeypatch.setattr(job_watch.time, "sleep", lambda seconds: None)
    return lines


WORKERS = {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 9, "hourly": 237.0}
TOO_SMALL = "training_job_max_cost: 1.00 USD pay for only 15 s of 9 nodes, at 237.00 USD per hour. Set it to more than 3.95 USD."
GOODPUT = {"nodes": 2, "seconds": 100.0, "ratio": 0.75, "buckets": {"training": 150.0, "start": 50.0}, "hosts": []}


def make_action(module, check_mode=False, **arguments):
    """Return the action of a module for a task with these arguments."""
    task = MagicMock(args=arguments, check_mode=check_mode, async_val=0)
    return module.ActionModule(task, *(MagicMock() for _argument in range(5)))


class Clock:
    """A clock that advances only when the code sleeps. The test fails if the code sleeps too often."""

    def __init__(self):
        self.now, self.looks = 0.0, 0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.looks += 1
        assert self.looks < 1000, "the action polled forever"
