"""Tests that wait for a job: they check the output, and how the wait ends after an interruption or if the host is unreachable."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
from copy import deepcopy
from functools import partial
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsiblePromptInterrupt, AnsiblePromptNoninteractive
from ansible_collections.deeplearning.cluster.plugins.action import training_job_wait
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_watch

from .conftest import GOODPUT, make_action


def answer(state="running", heartbeat=5.0, **more):
    process = {"name": "rank0", "host": "w1", "part": "worker", "state": "running", "started": 0.0, "heartbeat": heartbeat}
    job = {"name": "digits", "state": state, "directory": "/efs/jobs/digits", "process_count": 1, "processes": [process], "code": {}}
    job.update(began=0.0, ended=60.0, hosts=1)
    return {"jobs": [{**job, "progress": [], "progress_offset": 0, **more}]}


@pytest.fixture
def action(shown):
    return make_action(training_job_wait, name="digits", directory="/efs/jobs")


@pytest.fixture
def clock(monkeypatch):
    """Return a function that lets some seconds pass with each look at the clock."""
    return lambda seconds: monkeypatch.setattr(job_watch.time, "monotonic", partial(next, iter(range(0, 100_000, seconds))))


def follow(action, *looks):
    """Return the result of a task that gets these answers, and the arguments with which it asked for them."""
    action._execute_module = MagicMock(side_effect=[deepcopy(look) for look in looks])
    result = action.run(task_vars={})
    return result, [call.kwargs["module_args"] for call in action._execute_module.call_args_list]


def follow_to_success(action, *looks):
    result, asked = follow(action, *looks)
    assert not result.get("failed")
    return result, asked


def test_a_host_out_of_reach_ends_the_waiting_and_not_the_job(action, clock):
    clock(20)
    result, asked = follow(action, *[AnsibleConnectionFailure("no route")] * 20)
    told = r"not told its status for 60 s: no route.*The job was not stopped.* again with -e training_job_name=digits$"
    assert re.search(told, result["msg"])
    assert (result["failed"], result["out_of_reach"]) == (True, True)
    assert len(asked) > 2


@pytest.mark.parametrize("recovers", [True, False])
def test_a_host_whose_storage_is_gone_counts_as_unreachable(action, clock, recovers):
    """A node that is shutting down still answers after it has unmounted the storage."""
    clock(20)
    missing = {"jobs": [], "problems": []}
    result, asked = follow(action, answer(), missing, *([answer("succeeded")] * 2 if recovers else [missing] * 9))
    assert all(arguments["missing_ok"] for arguments in asked)
    if not recovers:
        assert re.search(r"not told its status for 60 s: it does not find the files of the job.*The job was not stopped", result["msg"])
        assert (result["out_of_reach"], result["job"]["name"]) == (True, "digits")
    else:
        assert not result.get("failed")


@pytest.mark.parametrize("lost", [{"jobs": [], "problems": []}, AnsibleConnectionFailure("no route")])
def test_a_failure_that_is_known_is_told_even_if_the_host_vanishes(action, monkeypatch, lost):
    monkeypatch.setattr(job_watch, "PAUSE_SECONDS", 0)
    result, _asked = follow(action, answer(), answer("failed"), lost)
    assert (result["failed"], result["job"]["state"], "out_of_reach" in result) == (True, "failed", False)


def test_each_look_goes_on_where_the_last_one_ended(action, shown):
    action._task.args["show_logs"] = True
    log = {"name": "rank0", "path": "/l", "lines": ["epoch 1"], "left_out": 0}
    result, asked = follow_to_success(
        action,
        answer(progress=[{"step": 1}], progress_offset=12, logs=[log], log_offsets={"rank0": 8}),
        answer(progress_offset=12, logs=[], log_offsets={"rank0": 8, "rank1": 3}),
        answer("succeeded", progress=[{"step": 2}], progress_offset=24, logs=[], log_offsets={}),
    )
    assert result["metrics"] == {"step": 2}
    assert shown[1:4] == ["rank 0 | epoch 1", "digits: step 1", "digits: step 2"]
    assert [look.get("progress_offset") for look in asked] == [None, 12, 12]
    assert [look.get("log_offsets") for look in asked] == [None, {"rank0": 8}, {"rank0": 8, "rank1": 3}]


@pytest.mark.parametrize(("show_logs", "held"), [(False, [0, 0, 3, 10, 10]), (True, [0] * 5)])
def test_the_longer_a_job_takes_the_fewer_polls_are_made(action, monkeypatch, show_logs, held):
    action._task.args["show_logs"] = show_logs
    monkeypatch.setattr(job_watch.time, "monotonic", partial(next, iter([0, 0, 0, 19, 19, 60, 60, 3600, 3600, 3700])))
    monkeypatch.setattr(job_watch.JobWatch, "_show_silence", lambda *_arguments: None)
    _result, asked = follow(action, *(answer("succeeded" if number == 4 else "running", number) for number in range(5)))
    assert [arguments["hold"] for arguments in asked] == held


HELD = {"queue": "slurm", "id": "7", "submitted": 5.0, "held": True}
WAITS = {"processes": [], "process_count": 0, "queue": HELD}


@pytest.fixture
def years(clock):
    """Let ten minutes pass between two polls."""
    clock(300)


@pytest.mark.usefixtures("years")
@pytest.mark.parametrize(
    ("before", "forged", "words"),
    [
        pytest.param([answer()], {"queue": HELD}, "wrote no record within", id="a job that has run"),
        pytest.param([], {"queue": {**HELD, "held": False}}, "wrote no record within", id="a job without a queue"),
        pytest.param([], {"queue": {**HELD, "problem": "no."}}, "has not responded for 3600 s: no. The job", id="no answer"),
    ],
)
def test_a_forged_entry_in_a_queue_does_not_keep_the_watch_waiting(action, before, forged, words):
    result, asked = follow(action, *before, *[answer("queued", **{**WAITS, **forged})] * 100)
    assert result["failed"]
    assert words in result["msg"]
    assert len(asked) < 20
    assert result.get("out_of_reach", False) == ("responded" in words), "a job that waits is not stopped"


@pytest.mark.usefixtures("years")
def test_a_queue_may_fail_to_respond_from_time_to_time(action):
    silent = {**WAITS, "queue": {**HELD, "problem": "squeue failed"}}
    polls = 70
    assert polls * 300 > 10 * job_watch.QUEUE_PATIENCE / 2
    follow_to_success(action, *(answer("queued", **(silent if poll % 3 else WAITS)) for poll in range(polls)), answer("succeeded"))


@pytest.mark.usefixtures("years")
def test_records_that_no_longer_change_do_not_keep_the_watch_waiting(action):
    """An ended job can leave records that are valid one after the other."""
    result, asked = follow(action, *[answer()] * 100)
    assert result["failed"]
    assert "its records say that it is running, but have not changed for 360 s" in result["msg"]
    assert len(asked) < 10


def test_a_job_may_wait_in_a_queue_for_longer_than_its_heartbeat_timeout(action, shown, clock):
    clock(30)
    entry = {**HELD, "reason": "Resources", "before": 1}
    none = {"processes": [], "process_count": 0}
    queued = answer("queued", queue=entry, **none)
    next_one = answer("queued", queue={**entry, "before": 0}, **none)
    pending = answer("pending", queue=entry, **none)
    follow_to_success(action, queued, queued, queued, next_one, pending, pending, answer("succeeded"), answer("succeeded"))
    assert [line.partition(";")[0] for line in shown[:2]] == [
        "digits: queued in Slurm as job 7: Resources, after 1 other job",
        "digits: queued in Slurm as job 7: Resources",
    ]
    assert "; the job continues" in shown[0]
    assert shown[2].startswith("digits: 1 processes, ")


def test_the_end_of_an_attempt_is_shown_once(action, shown):
    ended = {"attempt": 1, "state": "failed", "hosts": 2, "started": 1.0, "action": "restart", "rule": "same_hosts"}
    ended["failure"] = {"name": "rank1", "host": "w2", "state": "failed", "signal": "SIG\nKILL"}
    again = [ended, {"attempt": 2, "state": "running", "hosts": 2, "started": 3.0}]
    looks = [answer(attempts=[ended], attempt=1), answer(attempts=again, attempt=2), answer("succeeded", attempts=again, attempt=2)]
    follow_to_success(action, *looks)
    assert [line for line in shown if "attempt" in line and "failed" in line] == [
        "digits: attempt 1 failed: rank 1 on w2 was killed by signal SIG KILL. The job continues on the same hosts."
    ]


def test_processes_on_standby_do_not_replace_missing_processes():
    found = {"process_count": 2, "processes": [{"part": "worker"}, {"part": "standby"}]}
    assert job_watch.missing_ranks(found) == 1


def test_a_host_without_a_heartbeat_is_named_while_its_time_runs(action, shown, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(job_watch.time, "monotonic", lambda: clock.now)

    def look(*_arguments, **_options):
        clock.now += 10
        first = {"name": "rank0", "host": "w1", "part": "worker", "state": "running", "started": 0.0, "heartbeat": clock.now}
        silent = {"name": "rank1", "host": "w2", "part": "worker", "state": "running", "started": 0.0, "heartbeat": min(clock.now, 20.0)}
        return answer("running" if clock.now < 70 else "succeeded", processes=[first, silent], process_count=2)

    action._execute_module = look
    assert not action.run(task_vars={}).get("failed")
    assert [line for line in shown if "heartbeat" in line] == [
        f"digits: no heartbeat from w2 for {seconds} s. After 60 s, a host counts as lost." for seconds in (20, 30, 40, 50)
    ]


def test_a_job_without_activity_says_so(action, shown):
    follow_to_success(action, answer(quiet=0.0), answer(quiet=700.0), answer(quiet=710.0), answer("succeeded"))
    assert [line for line in shown if "no output" in line] == [
        f"digits: no output, step or checkpoint for 11 min {seconds} s. To restart a job that hangs, set training_job_hang_timeout."
        for seconds in (40, 50)
    ]


def test_the_goodput_is_asked_for_at_the_end_and_shown(action, shown):
    result, asked = follow(action, answer(), answer("succeeded", goodput=GOODPUT, attempt=1))
    assert "  goodput      75.0 % of the time (2 nodes for 1 min 40 s) was spent on training" in result["summary"]
    assert [look["goodput"] for look in asked] == ["ended", "ended"]
    assert all("metrics_directory" not in look for look in asked)


def test_metrics_are_written_every_minute_and_at_the_end(action, shown, clock, tmp_path):
    clock(10)
    action._task.args["metrics_directory"] = str(tmp_path)
    found = []

    def module(*_unused, module_args, **_more):
        found.append(module_args["goodput"])
        assert (tmp_path / "deeplearning-demo.digits.prom").exists() == (len(found) > 1)
        measured = {"goodput": GOODPUT} if module_args["goodput"] == "always" or len(found) == 6 else {}
        return answer("succeeded" if len(found) == 6 else "running", attempt=1, **measured)

    action._execute_module = module
    assert not action.run(task_vars={"deeplearning_cluster": "demo"}).get("failed")
    assert found[0] == "always"
    assert 2 <= found.count("always") <= 4
    text = (tmp_path / "deeplearning-demo.digits.prom").read_text()
    assert 'deeplearning_job_running{cluster="demo",training_job="digits"} 0.0\n' in text


def test_metrics_that_cannot_be_written_do_not_affect_the_job(action, shown, monkeypatch, tmp_path):
    warnings = []
    monkeypatch.setattr(job_watch.display, "warning", warnings.append)
    (tmp_path / "file").touch()
    action._task.args["metrics_directory"] = str(tmp_path / "file")
    follow_to_success(action, *(answer(state, goodput=GOODPUT, attempt=1) for state in ("running", "running", "succeeded")))
    (warning,) = warnings
    assert warning.startswith(f"metrics_directory: '{tmp_path}/file/deeplearning-digits.prom' cannot be written: ")


@pytest.mark.parametrize(("typed", "failed", "words"), [("stop", True, "will be stopped"), ("leave", None, "continues.\nTo watch it:")])
def test_an_interrupted_wait_tells_what_was_asked_for(action, shown, monkeypatch, typed, failed, words):
    monkeypatch.setattr(training_job_wait, "Question", lambda name: SimpleNamespace(answer=typed, ask=None))
    result, _asked = follow(action, *[answer()] * 9)
    assert (result["interrupted"], result.get("failed")) == (typed, failed)
    assert words in result["msg"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ([b"s"], "stop"),
        ([b"Stop"], "stop"),
        ([b"l"], "leave"),
        ([b""], ""),
        ([b"x", b"l"], "leave"),
        ([AnsiblePromptInterrupt()], "leave"),
        ([AnsiblePromptNoninteractive()], ""),
    ],
)
def test_the_question_at_ctrl_c(monkeypatch, typed, meant):
    monkeypatch.setattr(training_job_wait.display, "prompt_until", MagicMock(side_effect=typed))
    question = training_job_wait.Question("digits")
    question.ask()
    assert question.answer == meant


# As in Ansible: a main process on a terminal, and a worker with a separate session and without input.
WAITING = """
    import os, signal, sys, time
    from ansible_collections.deeplearning.cluster.plugins.plugin_utils import keyboard
    if os.fork():
        os.wait()
        sys.exit()
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
    pressed = []
    with keyboard.interrupts(lambda: pressed.append(1)) as listening:
        print(os.getpid(), listening, file=sys.stderr, flush=True)
        while not pressed:
            time.sleep(0.05)
    print("over", file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("end", ["ctrl-c", "terminated"])
def test_ctrl_c_is_noticed_and_the_terminal_given_back(end):
    main, terminal = pty.openpty()
    before = subprocess.run(["stty", "-a"], stdin=terminal, capture_output=True, text=True, check=True).stdout
    controlled = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n" + textwrap.dedent(WAITING)
    command = [sys.executable, "-c", controlled]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        pid, listening = run.stderr.readline().split()
        if listening != "True":
            os.kill(int(pid), signal.SIGKILL)
        assert listening == "True"
        if end == "ctrl-c":
            os.write(main, b"something else\x03")
        else:
            os.kill(int(pid), signal.SIGTERM)
        rest = run.communicate(timeout=120)[1]
    assert rest == ("over\n" if end == "ctrl-c" else "")
    assert subprocess.run(["stty", "-a"], stdin=terminal, capture_output=True, text=True, check=True).stdout == before
    os.close(main)
    os.close(terminal)


def test_without_a_terminal_nothing_listens():
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WAITING).replace("while not pressed", "while False")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert result.stderr.split()[1:] == ["False", "over"]


def test_what_a_script_reports_without_an_end_is_kept_and_shown_within_limits(shown, monkeypatch):
    """A script can report new metrics, problems and processes in each poll, for days."""
    warnings, asked, number = [], [], iter(range(1000))
    monkeypatch.setattr(job_watch.display, "warning", warnings.append)

    def poll(arguments):
        asked.append(arguments)
        one = next(number)
        progress = [{f"{one} {key}": 1 for key in range(500)}, {"long" + "x" * 300: 1, "text": "x" * 300, "step": one}]
        processes = [{"name": f"{one} {rank}", "host": "w1", "part": "worker", "state": "running", "heartbeat": 1.0} for rank in range(9)]
        attempts = [{"attempt": one * 100 + each + 1, "action": "restart", "rule": "same_hosts"} for each in range(100)]
        log = {"name": "rank0", "path": "/l", "left_out": 0, "lines": ["x" * 10] * 300_000}
        found = answer(progress=progress, processes=processes, attempts=attempts, logs=[log])
        found["jobs"][0]["log_offsets"] = {**{f"{one} {rank}": 1 for rank in range(9000)}, "x" * 300: 1, "text": "x"}
        return {**found, "problems": [f"problem {one} {each}" for each in range(15)]}

    watch = job_watch.JobWatch(poll, {"name": "digits", "directory": "/efs/jobs", "heartbeat_timeout": 60}, "")
    for _poll in range(4):
        shown.clear()
        watch.poll()
        assert sum(map(len, shown)) < 1_100_000
        assert len(shown) < 10_100
        assert len([line for line in shown if "attempt" in line]) == 21
    assert len(warnings) == 21
    assert warnings[-1] == "10 more problems"
    assert len(watch.metrics) == job_watch.METRICS
    assert {len(key) > 200 for key in watch.metrics} == {False}
    assert len(watch._heard) == 9
    assert len(asked[-1]["log_offsets"]) <= job_watch.OFFSETS
    assert all(isinstance(offset, int) for offset in asked[-1]["log_offsets"].values())
