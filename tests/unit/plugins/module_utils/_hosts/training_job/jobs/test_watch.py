"""Tests that check what one poll of a job's logs returns."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs import watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.directories import Paths


@pytest.fixture
def processes(tmp_path):
    for name in ("ps0", "rank1"):
        (tmp_path / f"{name}.log").write_text(f"{name} one\n{name} two\n")
    return [
        {
            "name": name,
            "ranks": [rank],
            "part": "worker",
            "tag": "",
            "log": str(tmp_path / f"{name}.log"),
            "state": "running",
            "processes": 2,
        }
        for rank, name in enumerate(("ps0", "rank1"))
    ]


def look(processes, **given):
    params = {"name": "digits", "log_lines": 1, "log_process": None, "log_offsets": {}, **given}
    found = watch.read_logs(processes, params)
    return [(log["name"], log["lines"], log["left_out"]) for log in found["logs"]], found["log_offsets"]


@pytest.mark.parametrize(
    ("given", "logs"),
    [
        ({}, [("ps0", ["ps0 two"], 0), ("rank1", ["rank1 two"], 0)]),
        ({"log_lines": 0}, []),
        ({"log_process": "ps0", "log_lines": 9}, [("ps0", ["ps0 one", "ps0 two"], 0)]),
        ({"log_process": "1"}, [("rank1", ["rank1 two"], 0)]),
        ({"log_offsets": {"ps0": 0, "rank1": 20}}, [("ps0", ["ps0 one", "ps0 two"], 0)]),
    ],
)
def test_the_end_of_a_log_is_read_first_and_then_what_follows(processes, given, logs):
    found, offsets = look(processes, **given)
    assert found == logs
    assert set(offsets.items()) <= {("ps0", 16), ("rank1", 20)}


def test_of_a_log_that_several_ranks_share_the_lines_of_one_are_found(tmp_path):
    def agent(index, tag="[rank {}] "):
        log = tmp_path / f"agent{index}.log"
        ranks = [2 * index, 2 * index + 1]
        log.write_text("starting\n" + "".join(f"[rank {rank}] step {step}\n" for step in (1, 2) for rank in (*ranks, 10 * ranks[1])))
        return {"name": f"agent{index}", "ranks": ranks, "part": "worker", "tag": tag, "log": str(log), "state": "running", "processes": 2}

    processes = [agent(0), agent(1)]
    assert look(processes, log_process="3")[0] == [("agent1", ["[rank 3] step 2"], 0)]
    assert look(processes, log_process="1", log_lines=9)[0] == [("agent0", ["[rank 1] step 1", "[rank 1] step 2"], 0)]
    assert look(processes, log_process="agent0", log_lines=2)[0] == [("agent0", ["[rank 1] step 2", "[rank 10] step 2"], 0)]
    assert len(look([agent(0, tag="")], log_process="1", log_lines=9)[0][0][1]) == 7, "without tags, all lines are shown"
    with pytest.raises(watch.NoProcessError, match=r"^rank: job digits has no rank '4'\. Specify one of 0, 1, 2, 3\."):
        look(processes, log_process="4")


def test_what_one_look_reads_is_limited(processes):
    with open(processes[0]["log"], "a") as file:
        file.writelines(f"line {number}\n" for number in range(200000))
    logs, offsets = look(processes, log_offsets={"ps0": 16})
    lines, left_out = logs[0][1:]
    assert len("\n".join(lines)) <= watch.LOGS_LIMIT / 2
    assert left_out + len("\n".join(lines)) + 1 == offsets["ps0"] - 16


def test_a_process_that_the_job_does_not_have_is_named(processes):
    with pytest.raises(watch.NoProcessError, match=r"job digits has no process 'ps9'. Specify one of ps0, rank1"):
        look(processes, log_process="ps9")
    assert look(processes[:1], log_process="rank1") == ([], {})  # the process may still start
    standby = {**processes[1], "name": "standby0", "ranks": [], "part": "standby"}
    assert look([processes[0], standby], log_process="rank1") == ([], {})
    with pytest.raises(watch.NoProcessError, match=r"^rank: job digits has no rank '2'\. Specify one of 0, 1\."):
        look([*processes, standby], log_process="2")


def test_the_logs_of_a_later_attempt_are_read_from_their_beginning(processes):
    params = {"name": "digits", "log_lines": 1, "log_process": None, "log_offsets": {"ps0": 700, "rank1": 700}}
    found = watch.read_logs(processes, params, attempt=2)
    assert [log["lines"] for log in found["logs"]] == [["ps0 one", "ps0 two"], ["rank1 one", "rank1 two"]]
    assert found["log_offsets"] == {"attempt2/ps0": 16, "attempt2/rank1": 20}
    assert watch.read_logs(processes, {**params, "log_offsets": found["log_offsets"]}, attempt=2)["logs"] == []
    assert watch.read_logs(processes, {**params, "log_offsets": {}}, attempt=2)["logs"][0]["lines"] == ["ps0 two"]


@pytest.mark.parametrize(
    ("state", "asked", "measured"),
    [
        ("running", "never", False),
        ("running", "ended", False),
        ("running", "always", True),
        ("succeeded", "never", False),
        ("succeeded", "ended", True),
        ("succeeded", "always", True),
    ],
)
def test_the_goodput_is_returned_when_it_is_asked_for(tmp_path, state, asked, measured):
    now = time.time()
    (tmp_path / "status").mkdir()
    (tmp_path / "job.json").write_text(json.dumps({"launcher": "torchrun", "created": now - 100}))
    record = {"name": "rank0", "rank": 0, "ranks": [0], "part": "worker", "host": "w1", "processes": 1, "state": state}
    record.update(started=now - 50, heartbeat=now, finished=now)
    (tmp_path / "status/rank0.json").write_text(json.dumps(record))
    (tmp_path / "progress.jsonl").write_text(json.dumps({"step": 1, "rank_seconds": [0.5], "time": now - 1}) + "\n")
    params = {"name": "digits", "attempt": None, "wait": 0, "hold": 0, "heartbeat_timeout": 60, "progress_offset": 0, "log_lines": None}
    found = watch.watch(Paths(str(tmp_path)), {**params, "goodput": asked}, lambda _jobs: None)
    assert ("goodput" in found, "step_times" in found) == (measured, measured)
    assert found["over"] is (state == "succeeded")
    if measured:
        assert found["goodput"]["buckets"]["waiting"] == pytest.approx(50, abs=1)
        assert found["step_times"] == [{"name": "w1", "seconds": 0.5, "slow": False}]


@pytest.mark.parametrize(
    ("hold", "happens", "seconds", "steps"),
    [
        (0, "", 0.0, 1),
        (3, "", 3.0, 7),
        (60, "", 10.0, 21),
        (60, "succeeded", 2.0, 5),
        (60, "attempt", 2.0, 5),
    ],
)
def test_progress_is_collected_until_the_job_ends_or_a_new_attempt_begins(tmp_path, monkeypatch, hold, happens, seconds, steps):
    clock = SimpleNamespace(now=100.0)
    state = {"state": "running", "attempt": 1, "processes": [], "command": []}
    state.update(directory="/efs/jobs/digits", checkpoint_directory="")

    def status(*_arguments, **_options):
        with (tmp_path / "progress.jsonl").open("a") as file:
            file.write('{"step": 1}\n')
        if happens and clock.now >= 102:
            state.update({"attempt": 2} if happens == "attempt" else {"state": happens})
        return dict(state)

    def sleep(duration):
        clock.now += duration

    monkeypatch.setattr(watch, "read_status", status)
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(watch.time, "sleep", sleep)
    params = {"name": "digits", "attempt": None, "wait": 10, "hold": hold, "heartbeat_timeout": 60, "progress_offset": 0, "log_lines": None}
    found = watch.watch(Paths(str(tmp_path)), {**params, "goodput": "never"}, lambda _jobs: None)
    assert (clock.now - 100.0, len(found["progress"])) == (seconds, steps)
    assert found.get("quiet") == (None if happens == "succeeded" else 0.0)
