"""Tests of the supervisor of one process. The tests run the supervisor as a program, in the same way as on hosts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Client
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import (
    between_attempts,
    end_reasons,
    oom_kills,
    process_failures,
    process_watch,
    supervisor,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause
from local_cloud.testing import wait_until

from ..conftest import with_tmpfs
from .conftest import others_record, record
from .supervised_jobs import QUICK


@pytest.fixture
def run(program):
    def run_it(spec, action="run", **environment):
        command = [sys.executable, "-I", str(program), action, str(spec)]
        return subprocess.run(command, timeout=300, check=False, env={**os.environ, **environment})

    return run_it


@pytest.fixture
def begin(program, tmp_path):
    """Return a function that starts a supervisor and returns its process, which is killed after the test."""
    started = []

    def begin_it(spec):
        command = [sys.executable, str(QUICK), str(program), str(tmp_path / "host"), "1", "run", str(spec)]
        started.append(subprocess.Popen(command, start_new_session=True))
        return started[-1]

    yield begin_it
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def log(tmp_path):
    path = tmp_path / "logs/rank1.log"
    return path.read_text() if path.exists() else ""


def test_success(run, make_spec, tmp_path):
    assert run(make_spec("print('hello')")).returncode == 0
    found = record(tmp_path)
    assert (found["state"], found["exit_code"], found["rank"], found["processes"]) == ("succeeded", 0, 1, 2)
    assert found["host"] == "deeplearning-worker2"
    assert found["started"] <= found["finished"] <= time.time()
    assert log(tmp_path) == "hello\n"
    assert os.listdir(tmp_path / "status") == ["rank1.json"]


def test_exit_status_is_the_processs(run, make_spec, tmp_path):
    assert run(make_spec("import sys; print('bad', file=sys.stderr); sys.exit(7)")).returncode == 7
    assert (record(tmp_path)["state"], record(tmp_path)["exit_code"]) == ("failed", 7)
    assert log(tmp_path) == "bad\n"


def test_a_full_disk_is_recorded_as_the_cause(program, make_spec, tmp_path):
    """A job that is not restarted learns it too."""
    small = tmp_path / "small"
    small.mkdir()
    code = f"open('{small}/full', 'wb', buffering=0).write(bytes(1 << 20)); exit(3)"
    spec = make_spec(code, environment={"HF_HOME": str(small)})
    command = [*with_tmpfs(small, "size=512k"), sys.executable, "-I", str(program), "run", str(spec)]
    assert subprocess.run(command, timeout=300, check=False).returncode == 3
    assert attempt_cause({"failure": record(tmp_path)}) == (
        f"rank 1 on deeplearning-worker2 ended with exit status 3 while {small} was full (0 bytes of 512 KiB free)"
    )


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (35, "35")])
def test_a_signal_is_recorded(run, make_spec, tmp_path, number, name):
    assert run(make_spec(f"import os; os.kill(os.getpid(), {number})")).returncode == 1
    assert (record(tmp_path)["state"], record(tmp_path)["signal"]) == ("failed", name)


LIMIT = {"kind": "time_limit", "limit": 5}


def test_what_cannot_be_started_is_recorded(run, make_spec, tmp_path):
    assert run(make_spec("", argv=["/nonexistent/python"])).returncode == 127
    assert record(tmp_path)["state"] == "failed"
    cause = {"kind": "not_started", "what": "No such file or directory: '/nonexistent/python'", "name": "/nonexistent/python"}
    assert record(tmp_path)["cause"] == cause


@pytest.mark.parametrize(("code", "kills"), [(-9, 1), (-9, 0), (-9, None), (1, 1), (1, 0), (0, 2), (0, 0), (0, None)])
def test_lack_of_memory_is_recorded(monkeypatch, make_spec, tmp_path, code, kills):
    spec = make_spec("")
    (tmp_path / "status").mkdir(exist_ok=True)
    watched = supervisor.Supervisor(json.loads(Path(spec).read_text()), str(spec))
    monkeypatch.setattr(oom_kills, "oom_kills_since", lambda _before: kills)
    watched.finished(code)
    assert record(tmp_path).get("oom_kills") == kills
    assert (record(tmp_path).get("cause", {}).get("kind") == "out_of_memory") == bool(code and kills)


@pytest.mark.parametrize(("state", "cause", "counts"), [("succeeded", None, True), ("stopped", None, False), ("failed", LIMIT, False)])
def test_lack_of_memory_of_a_process_that_was_stopped_is_not_recorded(monkeypatch, make_spec, tmp_path, state, cause, counts):
    spec = make_spec("")
    (tmp_path / "status").mkdir(exist_ok=True)
    watched = supervisor.Supervisor(json.loads(Path(spec).read_text()), str(spec))
    monkeypatch.setattr(oom_kills, "oom_kills_since", lambda _before: 1)
    watched.ended = end_reasons.End(state, cause)
    watched.finished(1)
    assert ("oom_kills" in record(tmp_path), record(tmp_path).get("cause")) == (counts, cause)


def test_a_process_has_finished_before_its_log_is_read(monkeypatch, make_spec, tmp_path):
    spec, times = make_spec(""), []
    (tmp_path / "status").mkdir(exist_ok=True)
    watched = supervisor.Supervisor(json.loads(Path(spec).read_text()), str(spec))
    monkeypatch.setattr(
        process_failures, "find_cause", lambda *_: times.append(time.time()) or {"kind": "exit_status", "what": "exit status 1"}
    )
    watched.finished(1)
    assert record(tmp_path)["finished"] <= times[0]


def test_arguments_and_environment_arrive_as_given(run, make_spec, tmp_path):
    arguments = ["two words", "'", '"', "$HOME", "100%", "%n", "a\nb", "ü☃", "", "--x"]
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['ODD'], 'PATH' in os.environ]))"
    run(make_spec(code, *arguments, environment={"ODD": "a b\n$c ü"}))
    assert json.loads(log(tmp_path)) == [arguments, "a b\n$c ü", True]


def test_the_login_shells_environment_is_there_and_the_jobs_goes_first(run, make_spec, tmp_path):
    (tmp_path / ".bash_profile").write_text("echo noise; export FROM_PROFILE=1 OVERRIDDEN=profile\n")
    code = "import os; print(os.environ['FROM_PROFILE'], os.environ['OVERRIDDEN'], os.environ['PATH'])"
    run(make_spec(code, environment={"OVERRIDDEN": "job"}, own_profile=True), HOME=str(tmp_path))
    assert re.fullmatch(r"1 job /opt/pytorch/bin:/.+\n", log(tmp_path))


def test_the_time_limit_ends_it(run, make_spec, tmp_path):
    assert run(make_spec("import time; time.sleep(600)", time_limit=1)).returncode != 0
    assert (record(tmp_path)["state"], record(tmp_path)["cause"]) == ("failed", {"kind": "time_limit", "limit": 1})


def test_a_time_limit_from_the_maximum_cost_is_told_with_what_the_job_has_cost(run, make_spec, tmp_path):
    run(
        make_spec(
            "import time; time.sleep(600)", time_limit=1, cost_limit={"amount": 5.0, "earlier": 2.0, "hourly": 36000.0, "currency": "USD"}
        )
    )
    found = record(tmp_path)
    assert (found["state"], found["cause"]["kind"]) == ("failed", "time_limit")
    cost = found["cause"]["cost"]
    assert (cost["limit"], cost["currency"], cost["spent"]) == (5.0, "USD", pytest.approx(2 + 10 * cost["seconds"]))
    assert (1 <= cost["seconds"] < 60, cost["earlier"]) == (True, 2.0)


def test_the_time_before_a_reboot_counts(run, make_spec, tmp_path):
    limit = {"amount": 5.0, "hourly": 36000.0, "currency": "USD"}
    run(make_spec("import time; time.sleep(600)", time_limit=1000, elapsed=999, cost_limit=limit))
    assert 1000 <= record(tmp_path)["cause"]["cost"]["seconds"] < 1060


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("import time; print('up'); time.sleep(600)", {"signal": "SIGTERM"}),
        ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(600)", {"signal": "SIGKILL"}),
        ("import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('up'); time.sleep(600)", {"exit_code": 0}),
    ],
    ids=["terminates", "has to be killed", "ends well"],
)
def test_stop_asks_then_kills(begin, make_spec, tmp_path, code, outcome):
    spec = make_spec(code, stop_timeout=1)
    process = begin(spec)
    wait_until(lambda: "up" in log(tmp_path))
    assert record(tmp_path)["state"] == "running"
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    found = record(tmp_path)
    assert (found["state"], found.get("stopped_for"), found.get("cause")) == ("stopped", None, None)
    assert {key: found[key] for key in outcome} == outcome


def test_a_host_that_shuts_down_is_told_from_an_operator(begin, make_spec, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\necho stopping\nexit 1\n")
    (tmp_path / "bin" / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    process = begin(make_spec("import time; print('up'); time.sleep(600)", stop_timeout=1))
    wait_until(lambda: "up" in log(tmp_path))
    process.send_signal(signal.SIGTERM)
    process.wait(300)
    assert (record(tmp_path)["state"], record(tmp_path)["cause"]) == ("failed", {"kind": "host_shut_down"})


def test_finish_completes_the_record_of_a_killed_supervisor(begin, run, make_spec, tmp_path):
    spec = make_spec("import time; print('up'); time.sleep(600)")
    process = begin(spec)
    wait_until(lambda: "up" in log(tmp_path))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(300)
    assert record(tmp_path)["state"] == "running"
    run(spec, "finish", SERVICE_RESULT="oom-kill", EXIT_STATUS="KILL")
    assert record(tmp_path)["state"] == "failed"
    assert record(tmp_path)["cause"] == {"kind": "killed", "what": "oom-kill (KILL)"}


def test_finish_leaves_a_complete_record_alone(run, make_spec, tmp_path):
    spec = make_spec("pass")
    run(spec)
    before = record(tmp_path)
    run(spec, "finish", SERVICE_RESULT="success", EXIT_STATUS="0")
    assert record(tmp_path) == before


def test_heartbeats_go_on_while_it_runs(make_spec, tmp_path, monkeypatch):
    monkeypatch.setattr(process_watch, "HEARTBEAT_INTERVAL", 0.0)
    monkeypatch.setattr(process_watch, "POLL_INTERVAL", 0.2)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    written = []
    monkeypatch.setattr(process_watch, "write_json", lambda path, found: written.append(dict(found)))
    assert supervise(make_spec("import time; time.sleep(1.5)")) == 0
    beats = [found["heartbeat"] for found in written if found["state"] == "running"]
    assert len(beats) >= 3
    assert beats == sorted(set(beats))


def supervise(spec):
    return supervisor.Supervisor(json.loads(spec.read_text()), str(spec)).run()


def test_full_storage_does_not_end_the_training_and_it_is_heard_of(make_spec, tmp_path, monkeypatch):
    monkeypatch.setattr(process_watch, "HEARTBEAT_INTERVAL", 0.0)
    monkeypatch.setattr(process_watch, "POLL_INTERVAL", 0.1)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    path = tmp_path / "status/rank1.json"
    others_record(tmp_path, "rank1", "running", heartbeat=1.0)
    os.utime(path, (1.0, 1.0))

    def full(path, found):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(process_watch, "write_json", full)
    assert supervise(make_spec("print('done')")) == 0
    assert log(tmp_path) == "done\n"
    assert records.read_record(str(path))["heartbeat"] > time.time() - 60


LEAD = {"name": "rank0", "rank": 0, "host": "deeplearning-worker1"}
FAILURE = {"rank": 0, "ranks": [], "part": "service", "processes": 3, "state": "failed", "started": 1.0, "finished": 2.0, "heartbeat": 2.0}


def verdict(tmp_path):
    return json.loads((tmp_path / "status/over").read_text())


def test_the_lead_ends_the_job_when_another_process_has_failed(begin, make_spec, tmp_path):
    process = begin(make_spec("import time; time.sleep(600)", **LEAD))
    others_record(tmp_path, "rank1", "failed", host="deeplearning-worker2", exit_code=3)
    assert process.wait(300) == 0
    found = json.loads((tmp_path / "status/rank0.json").read_text())
    assert (found["state"], found["stopped_for"]) == ("stopped", "rank1")
    assert (verdict(tmp_path)["state"], verdict(tmp_path)["failure"]["name"]) == ("failed", "rank1")


def test_whoever_stops_the_rest_of_a_failed_job_does_so_because_of_the_failure(begin, make_spec, tmp_path):
    others_record(tmp_path, "rank0", "failed", exit_code=3)
    process = begin(make_spec("import time; print('up', flush=True); time.sleep(600)"))
    wait_until(lambda: (tmp_path / "logs/rank1.log").exists() and (tmp_path / "logs/rank1.log").read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    assert (record(tmp_path)["state"], record(tmp_path)["stopped_for"]) == ("stopped", "rank0")


def test_the_lead_stays_until_the_last_has_succeeded(begin, make_spec, tmp_path):
    process = begin(make_spec("pass", **LEAD))
    path = str(tmp_path / "status/rank0.json")
    wait_until(lambda: (records.read_json(path) or {}).get("state") == "succeeded")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    others_record(tmp_path, "rank1", "succeeded")
    assert process.wait(300) == 0
    assert verdict(tmp_path) == {"state": "succeeded", "failure": None}


def test_a_lead_alone_is_done_at_once(run, make_spec, tmp_path):
    assert run(make_spec("pass", processes=1, **LEAD)).returncode == 0
    assert verdict(tmp_path)["state"] == "succeeded"


@pytest.mark.parametrize("state", ["running", "failed"])
def test_the_lead_goes_on_without_a_spare(begin, make_spec, tmp_path, state):
    others_record(tmp_path, "rank1", state, part="spare", heartbeat=1.0)
    os.utime(tmp_path / "status/rank1.json", (1.0, 1.0))
    process = begin(make_spec("import time; time.sleep(2)", heartbeat_timeout=1, **LEAD))
    assert process.wait(300) == 0
    assert verdict(tmp_path)["state"] == "succeeded"


def test_a_silent_process_is_lost(begin, make_spec, tmp_path):
    others_record(tmp_path, "rank1", "running", host="deeplearning-worker2")
    process = begin(make_spec("import time; time.sleep(600)", heartbeat_timeout=1, **LEAD))
    assert process.wait(300) == 0
    assert (verdict(tmp_path)["state"], verdict(tmp_path)["failure"]["name"]) == ("lost", "rank1")


def test_a_lead_that_is_stopped_need_not_wait_for_the_others(begin, make_spec, tmp_path):
    others_record(tmp_path, "rank1", "running")
    process = begin(make_spec("import time; print('up', flush=True); time.sleep(600)", **LEAD))
    wait_until(lambda: (tmp_path / "logs/rank0.log").exists() and (tmp_path / "logs/rank0.log").read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    assert verdict(tmp_path)["state"] == "stopped"


@pytest.mark.parametrize(
    ("outcome", "state", "stopped_for"),
    [
        ({"state": "succeeded", "failure": None}, "succeeded", None),
        ({"state": "failed", "failure": {**FAILURE, "name": "ps0", "host": "w3", "signal": "SIGKILL"}}, "stopped", "ps0"),
    ],
)
def test_the_others_end_with_the_verdict(begin, make_spec, tmp_path, outcome, state, stopped_for):
    others_record(tmp_path, "rank0", "running")
    process = begin(make_spec("import time; time.sleep(600)", part="service"))
    wait_until((tmp_path / "status/rank1.json").exists)
    (tmp_path / "status/over").write_text(json.dumps(outcome))
    assert process.wait(300) == 0
    assert (record(tmp_path)["state"], record(tmp_path).get("stopped_for")) == (state, stopped_for)


@pytest.fixture
def supervised(make_spec, tmp_path):
    """Return a supervisor, the process that it has started, and the verdict that its watch will read."""
    spec = make_spec("")
    (tmp_path / "status").mkdir()
    result = supervisor.Supervisor(json.loads(Path(spec).read_text()), str(spec))
    result.watch.write()
    result.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    failure = {
        **process_watch.first_record(result.spec),
        "name": "rank0",
        "host": "deeplearning-worker1",
        "state": "failed",
        "exit_code": 1,
    }
    verdict = {"state": "failed", "failure": failure}
    result.watch.poll = lambda: verdict
    yield result
    result.watch.stop()
    result.child.kill()
    result.child.wait()


@pytest.mark.parametrize("host", ["deeplearning-worker1", ""])
def test_before_a_process_is_stopped_its_open_connections_are_recorded(monkeypatch, supervised, tmp_path, host):
    """The main thread does not read the records, because it must be able to stop the process while the storage hangs."""
    seen = []

    def still_connected(_spec, _verdict):
        seen.append((threading.current_thread() is threading.main_thread(), supervised.child.poll()))
        return host

    monkeypatch.setattr(between_attempts, "still_connected", still_connected)
    supervised.watch.start()
    assert supervised.wait(supervised.child) == -signal.SIGTERM
    assert seen == [(False, None)]
    assert record(tmp_path).get("still_connected", "") == host
    assert supervised.ended.stopped_for == "rank0"


@pytest.mark.parametrize("kind", ["hang", "script_error"])
def test_before_a_process_is_stopped_the_exception_for_which_others_have_waited_is_recorded(monkeypatch, supervised, tmp_path, kind):
    found = {"kind": "script_error", "what": "OSError at train.py, line 9"}
    monkeypatch.setattr(process_failures, "raised", lambda _spec, _record: found)
    supervised.watch.poll()["failure"]["cause"] = {"kind": kind, "what": "a time-out of ALLREDUCE"}
    supervised.watch.start()
    supervised.wait(supervised.child)
    assert record(tmp_path).get("raised") == (found if kind == "hang" else None)


def test_the_connections_of_a_process_that_is_already_being_stopped_are_not_recorded(monkeypatch, supervised, tmp_path):
    monkeypatch.setattr(between_attempts, "still_connected", lambda _spec, _verdict: "deeplearning-worker1")
    supervised.stop(end_reasons.FROM_OUTSIDE)
    supervised.watch.start()
    wait_until(lambda: supervised.watch.verdict)
    assert "still_connected" not in record(tmp_path)


def test_a_process_is_stopped_while_its_records_cannot_be_read(monkeypatch, supervised):
    """The watch's thread has read the verdict, and then the storage hangs."""
    began, ending = threading.Event(), threading.Event()

    def still_connected(_spec, _verdict):
        began.set()
        ending.wait(60)

    monkeypatch.setattr(between_attempts, "still_connected", still_connected)
    supervised.watch.start()
    assert began.wait(60)
    supervised.time_limit_at = time.monotonic()
    try:
        assert supervised.wait(supervised.child) == -signal.SIGTERM
        assert not ending.is_set()
    finally:
        ending.set()


def test_the_others_end_when_the_lead_is_not_heard_of(begin, make_spec, tmp_path):
    others_record(tmp_path, "rank0", "succeeded")
    process = begin(make_spec("import time; time.sleep(600)", heartbeat_timeout=1))
    assert process.wait(300) == 0
    assert record(tmp_path)["stopped_for"] == "rank0"


@pytest.fixture
def rsh(program, make_spec, tmp_path):
    """Return a function that runs a command on a host of the job. A process that listens on a local port stands in for the host."""

    def run_it(port, *words, key="k" * 43):
        daemons = {"deeplearning-worker2": {"address": "127.0.0.1", "port": port}}
        spec = tmp_path / "asks.json"
        spec.write_text(json.dumps({"daemons": daemons, "key": key}))
        command = [sys.executable, "-I", str(program), "rsh", str(spec), *words]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)

    return run_it


@pytest.fixture
def serving(begin, make_spec):
    """Start a supervisor for a process without argv, and return the supervisor's port."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    daemons = {"deeplearning-worker2": {"address": "127.0.0.1", "port": port}}
    begin(make_spec("", argv=[], environment={"WHERE": "inside"}, daemons=daemons, key="k" * 43))
    return port


def test_what_serves_runs_commands_in_its_place(serving, rsh, tmp_path):
    """A process without argv runs the commands of clients that have the job's key, in its own environment."""
    done = rsh(serving, "deeplearning-worker2", "echo", "$WHERE;", "echo 'a  b' >&2;", "exit 3")
    assert (done.stdout, done.stderr, done.returncode) == ("inside\n", "a  b\n", 3)
    done = rsh(serving, "deeplearning-worker2", "kill -KILL $$")
    assert done.returncode == 137
    much = rsh(serving, "deeplearning-worker2", "head -c 3000000 /dev/zero | tr '\\0' x")
    assert (len(much.stdout), much.returncode) == (3000000, 0)
    refused = rsh(serving, "elsewhere", "true")
    assert (refused.stderr, refused.returncode) == ("elsewhere is not a host of this job\n", 1)


def test_a_daemon_that_a_command_leaves_is_not_waited_for(serving, rsh):
    started = time.monotonic()
    done = rsh(serving, "deeplearning-worker2", "sleep 200 & echo started")
    assert (done.stdout, done.returncode) == ("started\n", 0)
    assert time.monotonic() - started < 150


def test_who_lacks_the_jobs_key_starts_nothing(serving, rsh, tmp_path):
    rsh(serving, "deeplearning-worker2", "true")
    refused = rsh(serving, "deeplearning-worker2", f"touch {tmp_path}/started", key="another")
    assert refused.returncode == 1
    assert "another program is listening on this job's port on that host" in refused.stderr
    # A client that sends an invalid proof, and a client that sends the server's message back.
    for proof in (lambda answer: b"\0" * 32, lambda answer: answer[32:]):
        with Client(("127.0.0.1", serving)) as connection:
            connection.send_bytes(b"n" * 32)
            connection.send_bytes(proof(connection.recv_bytes()) + f"touch {tmp_path}/started".encode())
            with pytest.raises((EOFError, ConnectionResetError)):
                connection.recv_bytes()
    # A client that sends nothing does not block other clients.
    with socket.create_connection(("127.0.0.1", serving)):
        assert rsh(serving, "deeplearning-worker2", "echo", "on").stdout == "on\n"
    assert not (tmp_path / "started").exists()
