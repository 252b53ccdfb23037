"""Tests that check which process's last log lines appear in the message about a failed job."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import status
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.directories import Paths
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.document_schemas import RECORD
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import Budget, write_json
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.schema import count_values
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers import command, mpi, torchrun
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.documented_values import returned_values

TORCHRUN = """[rank 2] step 1
[rank 3] step 1
[rank 3] the disk is full
E1121 22:10:40.169000 210 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: 213)
============================================================
/efs/jobs/fails/code/fails.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-21_22:10:40
  rank      : 2 (local_rank: 0)
  exitcode  : -15 (pid: 212)  (SIGTERM)
  error_file: <N/A>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_22:10:39
  host      : deeplearning-worker2
  rank      : 3 (local_rank: 1)
  exitcode  : {status} (pid: 213)
  error_file: <N/A>
"""
ALONE = """W1121 22:10:38.000000 210 torch/distributed/run.py:774] a warning
step 1
ValueError: the disk is full
E1121 22:10:40.169000 210 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {status}) local_rank: 0 (pid: 213)
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
/efs/jobs/fails/code/fails.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_22:10:39
  host      : deeplearning-worker2
  rank      : 1 (local_rank: 0)
  exitcode  : {status} (pid: 213)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
MPI = """[1,0]<stdout>:step 1
[1,13]<stderr>:the disk is full
[1,13]<stderr>:rank 13 on deeplearning-worker2 ended with exit status 9
[1,1]<stderr>:rank 1 on deeplearning-worker1 ended with exit status 1
mpirun detected that one or more processes exited with non-zero status
"""
AGENT = {"name": "agent1", "ranks": [2, 3], "state": "failed", "exit_code": 1, "tag": torchrun.TAG}
MPIRUN = {"name": "mpirun", "ranks": [0, 1], "state": "failed", "exit_code": 9, "tag": mpi.TAG}
SINGLE = {**AGENT, "name": "rank1", "tag": ""}
PLAIN = {"name": "rank1", "ranks": [1], "state": "failed", "exit_code": 1, "tag": ""}
LAUNCHERS = {"mpirun": mpi.LAUNCHER, "agent1": torchrun.LAUNCHER, "rank1": torchrun.LAUNCHER}


@pytest.mark.parametrize(
    ("process", "log", "culprit", "first", "last"),
    [
        (
            AGENT,
            TORCHRUN.format(status=1),
            {"rank": "3", "exit_code": 1},
            "[rank 3] step 1",
            "[rank 3] the disk is full",
        ),
        (
            AGENT,
            TORCHRUN.format(status=-9),
            {"rank": "3", "signal": "SIGKILL"},
            "[rank 3] step 1",
            "[rank 3] the disk is full",
        ),
        (AGENT, "[rank 2] step 1\nno rendezvous\n", None, "[rank 2] step 1", "no rendezvous"),
        (
            {**AGENT, "cause": {"kind": "time_limit", "limit": 5}},
            TORCHRUN.format(status=1),
            None,
            "[rank 2] step 1",
            "  error_file: <N/A>",
        ),
        (SINGLE, ALONE.format(status=1), {"rank": "1", "exit_code": 1}, ALONE.splitlines()[0], "ValueError: the disk is full"),
        (
            SINGLE,
            ALONE.format(status=-9),
            {"rank": "1", "signal": "SIGKILL"},
            ALONE.splitlines()[0],
            "ValueError: the disk is full",
        ),
        (
            SINGLE,
            ALONE.format(status=1).split("full\n")[1],
            {"rank": "1", "exit_code": 1},
            None,
            None,
        ),
        (
            {**AGENT, "cause": {"kind": "out_of_memory"}},
            TORCHRUN.format(status=-9),
            {"rank": "3", "signal": "SIGKILL"},
            "[rank 3] step 1",
            "[rank 3] the disk is full",
        ),
        (SINGLE, "W1121 warns\nno rendezvous\n", None, "W1121 warns", "no rendezvous"),
        (
            MPIRUN,
            MPI,
            {"rank": "13", "exit_code": 9},
            "[1,13]<stderr>:the disk is full",
            "[1,13]<stderr>:rank 13 on deeplearning-worker2 ended with exit status 9",
        ),
        (PLAIN, "".join(f"line {number}\n" for number in range(100)), None, "line 60", "line 99"),
        (PLAIN, None, None, None, None),
    ],
)
def test_the_rank_that_was_first_is_named_and_heard(tmp_path, process, log, culprit, first, last):
    path = tmp_path / "log"
    if log is not None:
        path.write_text(log)
    launcher = LAUNCHERS[process["name"]] if process is not PLAIN else command.LAUNCHER
    found = status.describe_failure({**process, "log": str(path)}, launcher)
    assert found.get("culprit") == culprit
    assert (found["lines"][:1], found["lines"][-1:]) == (([first], [last]) if first else ([], []))


def test_a_process_that_was_stopped_has_nothing_to_say(tmp_path):
    path = tmp_path / "log"
    path.write_text("SignalException: Process 927 got signal: 15\n")
    stopped = {**SINGLE, "state": "stopped", "log": str(path)}
    assert status.describe_failure(stopped, torchrun.LAUNCHER) == {**stopped, "lines": []}


def test_what_a_rank_has_said_long_before_others_is_found(tmp_path):
    path = tmp_path / "log"
    path.write_text("[rank 3] the disk is full\n" + "[rank 2] waits\n" * 5000 + TORCHRUN.format(status=1).split("full\n")[1])
    assert status.describe_failure({**AGENT, "log": str(path)}, torchrun.LAUNCHER)["lines"] == ["[rank 3] the disk is full"]


def test_of_many_attempts_the_first_and_the_last_are_shown(tmp_path):
    found = status.read_attempts(Paths(str(tmp_path), 120), [], "running", Budget(), None)
    assert [each["attempt"] for each in found] == [*range(1, 51), *range(71, 121)]
    assert (found[-1]["state"], found[-2]["state"]) == ("running", "failed")
    assert [each["attempt"] for each in status.read_attempts(Paths(str(tmp_path), 99), [], "running", Budget(), None)] == list(
        range(1, 100)
    )


@pytest.mark.parametrize(("entry", "state"), [({}, "queued"), ({"failure": "no space"}, "failed")])
def test_a_job_in_a_queue_has_its_entry(tmp_path, entry, state):
    paths = Paths(str(tmp_path / "digits"))
    (tmp_path / "digits/status").mkdir(parents=True)
    (tmp_path / "digits/job.json").write_text('{"launcher": "command", "created": 1.0}')
    assert status.read_status(paths, 60)["state"] == "pending"
    written = {"queue": "slurm", "id": "7", "submitted": 5.0, **entry}
    write_json(paths.queue, written)
    found = status.read_status(paths, 60)
    assert (found["state"], found["queue"], found["attempts"][0]["state"]) == (state, written, state)
    assert "failure" not in found


@pytest.mark.parametrize(
    ("signs", "state", "seconds"),
    [
        ({}, "running", 3600),
        ({"output": 1000}, "running", 2600),
        ({"output": 1000, "step": 2000}, "running", 1600),
        ({"output": 1000, "step": 2000, "checkpoint": 2500}, "running", 1100),
        ({"output": 3001}, "running", 0),
        ({"step": 3001}, "running", 0),
        ({"checkpoint": 3001}, "running", 0),
        ({}, "pending", 0),
    ],
)
def test_a_running_job_says_for_how_long_it_has_shown_no_activity(tmp_path, signs, state, seconds):
    """The job starts at second 0, and the status is read at second 3600."""
    paths = Paths(str(tmp_path))
    os.makedirs(paths.checkpoints)
    (tmp_path / "checkpoints" / "7.pt").touch()
    for each, when in (
        (os.path.join(paths.checkpoints, "7.pt"), signs.get("checkpoint", 0)),
        (paths.checkpoints, 0),
        (paths.progress, signs.get("step")),
    ):
        if when is not None:
            open(each, "a").close() if each == paths.progress else None
            os.utime(each, (when, when))
    processes = [{"started": 0.0}, {"started": 0.0, **({"active": float(signs["output"])} if "output" in signs else {})}]
    found = {"state": state, "processes": processes, "directory": paths.directory, "checkpoint_directory": paths.checkpoints}
    assert status.quiet(found, 3600.0) == seconds
    assert status.quiet({**found, "processes": [], "checkpoint_directory": "s3://x/y"}, 3600.0) in (0, 3600 - signs.get("step", 3600))


HUNG = {"name": "rank1", "rank": 1, "ranks": [1], "part": "worker", "host": "w2", "processes": 2, "started": 1.0, "heartbeat": 2.0}
STUCK = {"rank": 1, "where": "train.py, line 3", "waits": True, "suspended": False}
CAUSE = {"kind": "exit_status", "what": "exit status 1", "exit_code": 1}


def test_of_a_failed_attempt_only_what_sentences_need_is_returned(tmp_path):
    paths = Paths(str(tmp_path / "digits"))
    os.makedirs(paths.status)
    internal = {"tagged": False, "pid": 7, "restartable": True, "available": True, "unfit": {"why": "reboot", "what": "x"}}
    internal = {**internal, "rebooted": False, "active": 2.0, "suspects_hang": True, "hang": {"seconds": 9.0}, "stuck": [STUCK] * 99}
    failure = {**HUNG, "state": "failed", "finished": 2.0, "exit_code": 1, "cause": CAUSE, **internal}
    empty = {"missing": [], "excluded": [], "replacements": [], "reboots": False, "refusal": "", "restarts": 3, "min_hosts": 2}
    following = {"action": "restart", "rule": "same_hosts", "decided": 3.0, "failure": failure, "cause": CAUSE, **empty, "damaged": []}
    write_json(paths.following, following)
    (found,) = status.read_attempts(paths, [], "running", Budget(), torchrun.LAUNCHER)
    documented = returned_values("training_job_info")["jobs"]["contains"]["attempts"]["contains"]
    assert found.keys() <= documented.keys()
    assert found["failure"].keys() <= documented["failure"]["contains"].keys()
    assert {*status.INTERNAL} == RECORD.keys() - documented["failure"]["contains"].keys()
    assert not found.keys() & {"missing", "excluded", "replacements", "reboots", "refusal", "damaged"}
    assert (found["restarts"], found["min_hosts"]) == (3, 2)
    assert count_values(found, 1000) < 50


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_process_that_still_saves_has_the_cause_that_is_in_the_verdict(tmp_path, state):
    paths = Paths(str(tmp_path / "digits"))
    os.makedirs(paths.status)
    write_json(paths.description, {"launcher": "torchrun", "created": 1.0})
    notice = {"kind": "spot_interruption", "deadline": 9.0}
    write_json(paths.verdict, {"state": "failed", "failure": {**HUNG, "state": "failed", "finished": 2.0, "cause": notice}})
    write_json(paths.record("rank1"), {**HUNG, "state": state, "heartbeat": 2.0, "finished": 3.0})
    write_json(paths.record("rank0"), {**HUNG, "name": "rank0", "rank": 0, "state": "running"})
    found = status.read_status(paths, 1 << 32)["processes"]
    assert [each.get("cause") for each in found] == [None, notice if state == "running" else None]
