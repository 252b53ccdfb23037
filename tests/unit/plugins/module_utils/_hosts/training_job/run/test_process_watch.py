"""Tests of how a supervisor detects that an attempt is over."""

from __future__ import annotations

import itertools
import json
import time
import types

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import process_watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import failure_causes

from .conftest import others_record


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"restarts": 0}, False),
        ({"part": "standby"}, False),
        ({"health_interval": 0}, False),
        ({"health_check": False}, False),
    ],
)
def test_health_checks_for_other_jobs_do_not_end_an_attempt(changes, expected):
    params = {"restarts": 3, "health_check": True, "health_interval": 300, **changes}
    assert process_watch.heeds_health({"part": params.pop("part", "worker"), "parameters": params}) == expected


def test_nobody_is_lost_while_storage_hangs(make_spec, tmp_path, monkeypatch):
    others_record(tmp_path, "rank0", "running")
    spec = json.loads(make_spec("", heartbeat_timeout=10).read_text())
    watch = process_watch.Watch(spec, {"name": "rank1"})
    now = time.monotonic()
    for looked_at in (now, now + 600):
        monkeypatch.setattr(time, "monotonic", lambda moment=looked_at: moment)
        assert watch.poll() is None


class Simulation:
    """Simulated time, which passes only while a supervisor waits for its next poll."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.polls = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "time", lambda: self.now)

    def run(self, watch, happens, seconds=60.0):
        """Run a supervisor until it has a verdict or the time has elapsed. Call `happens` whenever the supervisor waits."""

        def wait(duration):
            self.now += duration
            happens(self)
            return is_stopped()

        def is_stopped():
            return watch.verdict is not None or self.now > 1000.0 + seconds

        def poll(original=watch.poll):
            self.polls.append(self.now)
            return original()

        watch.poll = poll
        watch._stopped = types.SimpleNamespace(is_set=is_stopped, wait=wait)
        watch._run()


@pytest.fixture
def make_watch(make_spec, monkeypatch):
    """Return a function that creates the `Watch` of a supervisor whose job detects hangs. Collecting stacks takes no time."""
    monkeypatch.setattr(process_watch.threading, "Thread", lambda target, **_options: types.SimpleNamespace(start=target))
    monkeypatch.setattr(process_watch.stacks, "collect", lambda *_arguments: [])

    def make(name):
        spec = {**json.loads(make_spec("", name=name, hang_steps=3, restarts=3).read_text()), "environment": {}}
        return process_watch.Watch(spec, {**process_watch.first_record(spec), "restartable": True})

    return make


# The time of the last step. The values differ in their distance from the next poll.
@pytest.mark.parametrize("hangs_at", [1020.0, 1020.4, 1020.9, 1021.3, 1021.9])
@pytest.mark.parametrize("step", [0.1, 1.3])
def test_a_hang_is_noticed_in_three_median_steps_and_ten_seconds(make_watch, tmp_path, monkeypatch, hangs_at, step):
    simulation = Simulation(monkeypatch)
    (tmp_path / "status").mkdir()
    watch, asked, steps = make_watch("rank0"), [], []

    def happens(now):
        while len(steps) * step <= min(now.now, hangs_at) - 1000:
            steps.append(1000 + len(steps) * step)
        (tmp_path / "progress.jsonl").write_text("".join(f'{{"step": {number}, "steps": 1000}}\n' for number in range(len(steps))))
        # Another supervisor sees the request after 0.25 s, and collects stacks for 1.3 s.
        if "hang" in watch.record and not asked:
            asked.append(now.now)
        is_done = asked and now.now >= asked[0] + 0.25 + 1.3
        others_record(tmp_path, "rank1", "running", heartbeat=now.now, **({"stuck": []} if is_done else {}))

    simulation.run(watch, happens)
    assert watch.verdict["failure"]["cause"]["kind"] == failure_causes.HANG
    assert 3 * step + 6 < simulation.now - steps[-1] <= 3 * step + 10


def test_the_other_supervisors_poll_at_short_intervals_while_a_hang_is_suspected(make_watch, tmp_path, monkeypatch):
    simulation = Simulation(monkeypatch)
    (tmp_path / "status").mkdir()

    def happens(now):
        others_record(tmp_path, "rank0", "running", heartbeat=now.now, suspects_hang=1020 <= now.now < 1040)

    happens(simulation)
    simulation.run(make_watch("rank1"), happens)

    def intervals(first, last):
        return {after - before for before, after in itertools.pairwise(simulation.polls) if first <= before and after <= last}

    assert (intervals(1000, 1020), intervals(1022, 1040), intervals(1041, 1060)) == ({2.0}, {0.25}, {2.0})
