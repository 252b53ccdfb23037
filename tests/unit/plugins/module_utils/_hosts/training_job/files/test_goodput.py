"""Tests that check how goodput is calculated from a job's files."""

from __future__ import annotations

import json
import math
import os
import random
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import goodput
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.directories import Paths

START = 1_790_000_000.0
LOST = {"kind": "host_lost", "what": "the loss of b"}
HUNG = {"kind": "hang", "what": "a hang"}


class Job:
    """The files of a job on the hosts a, b and so on. Times are in seconds after the creation of the job."""

    def __init__(self, folder):
        self.paths = Paths(str(folder / "digits"))
        self.folder = folder / "digits"
        (self.folder / "status").mkdir(parents=True)
        (self.folder / "job.json").write_text(json.dumps({"launcher": "torchrun", "created": START}))

    def record(self, host, state="running", started=10.0, ended=None, heartbeat=None, **more):
        rank = "abcdef".index(host)
        record = {"name": f"rank{rank}", "rank": rank, "ranks": [rank], "part": "worker", "host": host, "processes": 2, "state": state}
        record.update(started=START + started, heartbeat=START + (heartbeat or ended or 0.0), **more)
        return record if ended is None else {**record, "finished": START + ended}

    def status(self, attempt):
        path = self.folder / "status" if attempt == 1 else self.folder / f"status/attempt{attempt}"
        path.mkdir(exist_ok=True)
        return path

    def add(self, attempt, *records):
        for record in records:
            path = self.status(attempt) / f"{record['name']}.json"
            path.write_text(json.dumps(record))
            os.utime(path, (0, 0))  # the time of the file's last change counts as a heartbeat

    def decide(self, attempt, failure, decided, started=10.0, hosts="ab", action="restart", **more):
        document = {"action": action, "rule": "same_hosts", "decided": START + decided, "started": START + started, "failure": failure}
        (self.status(attempt) / "next").write_text(json.dumps({**document, "hosts": list(hosts), **more}))

    def judge(self, attempt, state, failure=None, **more):
        (self.status(attempt) / "over").write_text(json.dumps({"state": state, "failure": failure, **more}))

    def progress(self, *entries):
        lines = [json.dumps({"step": step, "time": START + then}) for then, step in entries]
        (self.folder / "progress.jsonl").write_text("\n".join([*lines, ""]))

    def spent(self):
        found = goodput.measure(self.paths, 60).goodput
        assert math.isclose(sum(found["buckets"].values()), found["nodes"] * found["seconds"], abs_tol=0.01)
        return {each["host"]: {bucket: seconds for bucket, seconds in each["buckets"].items() if seconds} for each in found["hosts"]}


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job that is inspected 100 s after its creation."""
    monkeypatch.setattr(time, "time", lambda: START + 100)
    return Job(tmp_path)


def test_a_job_that_runs_is_measured_until_now(job):
    job.add(1, job.record("a", heartbeat=98), job.record("b", started=12, heartbeat=96))
    job.progress((15, 1), (20, 2))
    both = {"waiting": 10, "start": 5, "training": 85}
    assert job.spent() == {"a": both, "b": both}


def test_the_instances_of_all_attempts(job):
    job.add(1, job.record("a", instance="i-00000001"), job.record("b", instance="i-00000002"))
    job.decide(1, job.record("b", "lost"), 40)
    second = [job.record("a", instance="i-00000001", started=50), job.record("b", instance="i-00000003", started=50)]
    job.add(2, *second, job.record("c", started=50))
    assert goodput.measure(job.paths, 60).instances == [f"i-0000000{number}" for number in (1, 2, 3)]


def test_the_time_until_somebody_continued_the_job_does_not_count(job):
    """Two hosts run from 10 to 60 s, with a restart, and one from 80 to 90 s."""
    job.add(1, job.record("a", "failed", ended=30), job.record("b", "failed", ended=35))
    job.decide(1, None, 40)
    job.add(2, job.record("a", "failed", started=50, ended=60), job.record("b", "stopped", started=50, ended=55))
    job.decide(2, None, 79, rule="continued")
    job.add(3, job.record("a", started=80, heartbeat=90))
    assert goodput.node_seconds(job.paths, 5) == pytest.approx(2 * 50 + 10)
    (job.folder / "status/attempt3/rank0.json").unlink()
    assert goodput.node_seconds(job.paths, 5) == pytest.approx(2 * 50)
    assert goodput.node_seconds(Paths(str(job.folder / "missing")), 5) == 0


def test_a_job_that_has_succeeded_is_measured_until_its_last_process_ended(job):
    job.add(1, job.record("a", "succeeded", ended=50), job.record("b", "succeeded", ended=40))
    job.judge(1, "succeeded")
    assert job.spent() == {"a": {"waiting": 10, "training": 40}, "b": {"waiting": 10, "training": 30, "idle": 10}}


def test_a_job_that_has_failed_is_measured_until_the_hosts_decided_to_stop_it(job):
    failure = job.record("b", "failed", ended=40, restartable=True)
    job.add(1, job.record("a", "stopped", ended=45), failure)
    job.judge(1, "failed", failure, restartable=True)
    job.decide(1, failure, 47, action="stop")
    both = {"waiting": 10, "training": 30, "detection": 7}
    assert job.spent() == {"a": both, "b": both}
    (job.folder / "status/next").unlink()
    job.judge(1, "failed", failure)
    assert job.spent()["a"] == {"waiting": 10, "training": 30, "detection": 5}


def test_a_failure_counts_from_its_moment_even_before_there_is_a_verdict(job):
    job.add(1, job.record("a", heartbeat=98), job.record("b", "failed", ended=90, restartable=True))
    assert job.spent()["a"] == {"waiting": 10, "start": 80, "detection": 10}
    job.judge(1, "failed", job.record("b", "failed", ended=90), restartable=True)
    assert job.spent()["a"] == {"waiting": 10, "start": 80, "detection": 10}


def test_a_job_that_has_not_started_has_no_hosts(job):
    found = goodput.measure(job.paths, 60).goodput
    assert (found["nodes"], found["seconds"], found["hosts"]) == (0, 100, [])


def test_a_restarted_job_is_measured_across_its_attempts(job):
    failure = job.record("b", "failed", ended=40)
    job.add(1, job.record("a", "stopped", ended=43), failure)
    job.decide(1, failure, 45)
    job.add(2, job.record("a", started=50, heartbeat=98), job.record("b", started=51, heartbeat=98))
    job.progress((15, 1), (20, 2), (30, 3), (55, 2), (60, 3), (70, 4))
    both = {"waiting": 10, "start": 10, "training": 65, "detection": 5, "restart": 5, "recomputed": 5}
    assert job.spent() == {"a": both, "b": both}


def test_a_restart_that_has_not_begun_lasts_until_now(job):
    failure = job.record("b", "failed", ended=40, restartable=True)
    job.add(1, job.record("a", "stopped", ended=43, available=True, heartbeat=98), failure)
    job.judge(1, "failed", failure, restartable=True)
    job.decide(1, failure, 95, hosts="a")
    expected = {
        "a": {"waiting": 10, "training": 30, "detection": 55, "restart": 5},
        "b": {"waiting": 10, "training": 30, "detection": 55, "idle": 5},
    }
    assert job.spent() == expected
    job.status(2)
    assert job.spent() == expected


def test_a_lost_host_is_detected_from_its_last_heartbeat_and_then_idle(job):
    failure = job.record("b", "lost", heartbeat=30)
    job.add(1, job.record("a", "stopped", ended=45), job.record("b", heartbeat=30))
    job.decide(1, failure, 50, hosts="a", missing=["b"], cause=LOST)
    job.add(2, job.record("a", started=52, heartbeat=98))
    assert job.spent() == {
        "a": {"waiting": 10, "training": 20 + 48, "detection": 20, "restart": 2},
        "b": {"waiting": 10, "training": 20, "detection": 20, "idle": 50},
    }


def test_steps_after_the_last_heartbeat_of_a_lost_host_are_training(job):
    """A host sends a heartbeat every few seconds, and is lost at an unknown moment after the last one."""
    failure = job.record("b", "lost", heartbeat=12)
    job.add(1, job.record("a", "failed", ended=46), failure)
    job.decide(1, failure, 50, hosts="a", missing=["b"], cause=LOST)
    job.add(2, job.record("a", started=55, heartbeat=100, processes=1))
    job.progress((15, 1), (20, 2), (60, 3))
    assert job.spent() == {
        "a": {"waiting": 10, "start": 5 + 5, "training": 5 + 40, "detection": 30, "restart": 5},
        "b": {"waiting": 10, "start": 5, "training": 5, "detection": 30, "idle": 50},
    }


def test_a_spare_is_idle_until_it_takes_the_place_of_a_lost_host(job):
    """Host `d` remains a spare. Until `d` has a record of the second attempt, the decision shows that `d` is a spare."""
    failure = job.record("b", "lost", heartbeat=30)
    spares = [job.record(host, "stopped", ended=46, part="standby") for host in "cd"]
    job.add(1, job.record("a", "stopped", ended=45), job.record("b", heartbeat=30), *spares)
    job.decide(1, failure, 50, hosts="acd", missing=["b"], standby=["d"], replacements=["c"], cause=LOST)
    job.add(2, job.record("a", started=52, heartbeat=98), job.record("c", started=54, heartbeat=98))
    assert job.spent() == {
        "a": {"waiting": 10, "training": 20 + 46, "start": 2, "detection": 20, "restart": 2},
        "b": {"waiting": 10, "training": 20, "detection": 20, "idle": 50},
        "c": {"waiting": 10, "idle": 40, "start": 2, "restart": 2, "training": 46},
        "d": {"waiting": 10, "idle": 90},
    }
    job.add(2, job.record("d", started=53, heartbeat=98, part="standby"))
    assert job.spent()["d"] == {"waiting": 10, "idle": 90}


def test_a_host_that_left_an_elastic_job_is_idle_in_older_attempts_too(job):
    failure = job.record("a", "failed", ended=40)
    job.add(1, failure, job.record("b", part="spare", heartbeat=20), job.record("c", "failed", ended=25, part="spare"))
    job.decide(1, failure, 45, hosts="a")
    job.add(2, job.record("a", started=45, heartbeat=98))
    spent = job.spent()
    assert spent["b"] == {"waiting": 10, "training": 10, "idle": 20 + 55, "detection": 5}
    assert spent["c"] == {"waiting": 10, "training": 15, "idle": 15 + 55, "detection": 5}


def test_hosts_that_a_decision_only_plans_with_are_hosts_of_the_job_once_they_have_a_process(job):
    """A job with the launcher `command` may run on only the first of its hosts, and a later attempt may run on a different host."""
    failure = job.record("a", "lost", heartbeat=30)
    job.add(1, job.record("a", heartbeat=30))
    job.decide(1, failure, 40, hosts="bc", missing=["a"])
    job.add(2, job.record("b", started=42, heartbeat=98))
    assert set(job.spent()) == {"a", "b"}
    assert job.spent()["b"] == {"waiting": 10, "idle": 30, "restart": 2, "training": 58}


def test_a_host_that_did_not_start_in_an_attempt_takes_part_in_it(job):
    first = job.record("a", "failed", ended=40)
    job.add(1, first, job.record("b", "stopped", ended=42))
    job.decide(1, first, 45)
    job.add(2, job.record("a", "stopped", started=50, ended=70))
    job.decide(2, job.record("b", "lost", started=45, heartbeat=60), 75, started=50, hosts="a", missing=["b"])
    job.add(3, job.record("a", started=80, heartbeat=98))
    assert job.spent()["b"] == {"waiting": 10, "training": 30 + 10, "detection": 5 + 15, "restart": 5, "idle": 25}


def test_a_hang_is_detected_from_the_last_step(job):
    hung = {**HUNG, "hang": {"seconds": 14.0, "median": 2.1}}
    failure = job.record("b", "failed", ended=60, cause=hung, active=START + 55)
    job.add(1, job.record("a", "stopped", ended=61, active=START + 58), failure)
    job.decide(1, failure, 62)
    job.add(2, job.record("a", started=62, heartbeat=98))
    job.progress((10, 1), (30, 2), (62, 1))
    assert job.spent()["a"] == {"waiting": 10, "training": 20, "detection": 32, "recomputed": 38}


def test_a_hang_without_steps_is_detected_from_the_last_output(job):
    why = "made no progress for 31 s, with no output, reported step or checkpoint"
    failure = job.record("b", "failed", ended=60, cause={**HUNG, "hang": None}, reason=why, active=START + 25)
    job.add(1, job.record("a", "stopped", ended=61, active=START + 28), failure)
    job.decide(1, failure, 62)
    job.add(2, job.record("a", started=62, heartbeat=98))
    assert job.spent()["a"] == {"waiting": 10, "training": 18 + 38, "detection": 34}
    job.progress((10, 1), (29, 2))
    assert job.spent()["a"]["detection"] == 33
    (job.folder / "progress.jsonl").unlink()
    for rank in (0, 1):
        (job.folder / f"status/rank{rank}.json").unlink()
    assert job.spent()["a"]["detection"] == 37


def test_the_recorded_growth_of_the_progress_file_tells_times_that_entries_do_not(job):
    job.add(1, job.record("a", heartbeat=98))
    (job.folder / "progress.jsonl").write_text('{"step": 1}\n{"step": 2}\nno entry\n{"checkpoint_seconds": 5}\n')
    (job.folder / "status/progress").write_text(f"{START + 30} 12\n{START + 40} 24\n{START + 60} 58\n")
    assert job.spent() == {"a": {"waiting": 10, "start": 20, "training": 65, "checkpoint": 5}}


def test_of_old_attempts_only_the_decisions_are_read_if_there_are_too_many_records(job, monkeypatch):
    for attempt in (1, 2, 3):
        failure = job.record("a", "failed", started=20 * attempt, ended=20 * attempt + 10)
        job.add(attempt, failure, job.record("b", "failed", started=20 * attempt, ended=20 * attempt + 5, part="spare"))
        job.decide(attempt, failure, 20 * attempt + 15, started=20 * attempt)
    job.add(4, job.record("a", started=80, heartbeat=98), job.record("b", started=80, heartbeat=98))
    assert job.spent()["b"]["idle"] == 3 * 5
    size = len((job.folder / "status/attempt3/rank0.json").read_bytes())
    monkeypatch.setattr(goodput, "OLDER_RECORDS_LIMIT", 2 * size + 20)
    assert job.spent()["b"] == {"waiting": 20, "training": 10 + 10 + 5 + 20, "idle": 5, "detection": 15, "restart": 15}


def test_an_attempt_without_a_decision_is_left_out(job):
    failure = job.record("a", "failed", ended=20)
    job.add(1, failure)
    job.decide(1, failure, 30)
    job.add(2, job.record("a", "failed", started=40, ended=50))
    job.decide(3, job.record("a", "failed", ended=58), 60, started=55)
    job.add(4, job.record("a", started=70, heartbeat=98))
    assert job.spent() == {"a": {"waiting": 10, "training": 10 + 3 + 30, "detection": 10 + 2, "restart": 25 + 10}}


def test_a_decision_that_does_not_say_when_its_attempt_began(job):
    failure = job.record("a", "failed", started=5, ended=20)
    job.add(1, job.record("a", "failed", started=5, ended=20))
    job.decide(1, failure, 30, started=0)
    decision = json.loads((job.folder / "status/next").read_text())
    del decision["started"]
    (job.folder / "status/next").write_text(json.dumps(decision))
    job.add(2, job.record("a", started=40, heartbeat=98))
    assert job.spent() == {"a": {"waiting": 5, "training": 15 + 60, "detection": 10, "restart": 10}}
    (job.folder / "status/rank0.json").unlink()
    assert job.spent() == {"a": {"waiting": 30, "restart": 10, "training": 60}}


def test_a_directory_that_is_no_job_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        goodput.measure(Paths(str(tmp_path / "none")), 60)


def test_step_times_are_those_of_the_newest_attempt(job):
    failure = job.record("b", "failed", ended=40)
    job.add(1, job.record("a", "stopped", ended=43), failure)
    job.decide(1, failure, 45)
    job.add(2, job.record("a", started=50, heartbeat=98), job.record("b", started=51, heartbeat=98))
    lines = [{"rank_seconds": [9, 1], "time": START + 49}, {"rank_seconds": [0.5, 0.75], "time": START + 50}]
    (job.folder / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert goodput.measure(job.paths, 60).step_times == [
        {"name": "b", "seconds": 0.75, "slow": True},
        {"name": "a", "seconds": 0.5, "slow": False},
    ]
    job.add(2, job.record("b", started=51, heartbeat=98, part="service"))
    assert [each["name"] for each in goodput.measure(job.paths, 60).step_times] == ["rank 1", "rank 0"]


NASTY = [
    None,
    0,
    -1,
    1e300,
    START,
    START + 60,
    "a",
    "x" * 300,
    [],
    {},
    True,
    "running",
    "lost",
    "failed",
    ["a", "c"],
    {"kind": "hang", "what": ""},
]


@pytest.mark.parametrize("seed", range(60))
def test_forged_records_neither_stop_the_measurement_nor_change_the_sum(job, seed):
    noise = random.Random(seed)
    failure = job.record("b", "failed", ended=40)
    job.add(1, job.record("a", "stopped", ended=43), failure)
    job.decide(1, failure, 45)
    job.add(2, job.record("a", started=50, heartbeat=98), job.record("b", "failed", started=51, ended=80))
    job.judge(2, "failed", job.record("b", "failed", started=51, ended=80), restartable=True)
    job.decide(2, job.record("b", "failed", started=51, ended=80), 85, started=50, action=noise.choice(["stop", "restart"]))
    job.progress((15, 1), (20, 2), (30, 3), (55, 2), (60, 3), (70, 4))
    for path in noise.sample(sorted(path for path in job.folder.rglob("*") if path.is_file() and path.name != "job.json"), 3):
        lines = []
        for line in path.read_text().splitlines():
            document = json.loads(line)
            place = noise.choice([document, document.get("failure") or document])
            place[noise.choice(sorted(place))] = noise.choice(NASTY)
            lines.append(json.dumps(document))
        path.write_text("\n".join([*lines, ""]))
        os.utime(path, (0, 0))
    job.spent()
