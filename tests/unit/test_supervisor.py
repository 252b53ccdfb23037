"""The supervisor of one process, run as the program that it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils import job_supervisor

PROGRAM = Path(job_supervisor.__file__)


@pytest.fixture
def make_spec(tmp_path):
    def make(code, *arguments, **changes):
        spec = {
            "rank": 1,
            "processes": 2,
            "host": "deeplearning-worker2",
            "argv": [sys.executable, "-u", "-c", code, *arguments],
            "environment": {},
            "cwd": str(tmp_path),
            "log": str(tmp_path / "logs/rank1.log"),
            "record": str(tmp_path / "status/rank1.json"),
            "time_limit": 0,
            "stop_timeout": 30,
            **changes,
        }
        path = tmp_path / "spec.json"
        path.write_text(json.dumps(spec))
        return path

    return make


def run(spec, action="run", **environment):
    return subprocess.run([sys.executable, str(PROGRAM), action, str(spec)], timeout=30, check=False, env={**os.environ, **environment})


def record(tmp_path):
    return json.loads((tmp_path / "status/rank1.json").read_text())


def log(tmp_path):
    path = tmp_path / "logs/rank1.log"
    return path.read_text() if path.exists() else ""


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_success(make_spec, tmp_path):
    assert run(make_spec("print('hello')")).returncode == 0
    found = record(tmp_path)
    assert (found["state"], found["exit_code"], found["rank"], found["processes"]) == ("succeeded", 0, 1, 2)
    assert found["host"] == "deeplearning-worker2"
    assert found["started"] <= found["finished"] <= time.time()
    assert log(tmp_path) == "hello\n"
    assert os.listdir(tmp_path / "status") == ["rank1.json"]


def test_exit_status_is_the_processs(make_spec, tmp_path):
    assert run(make_spec("import sys; print('bad', file=sys.stderr); sys.exit(7)")).returncode == 7
    assert (record(tmp_path)["state"], record(tmp_path)["exit_code"]) == ("failed", 7)
    assert log(tmp_path) == "bad\n"


def test_a_signal_is_recorded(make_spec, tmp_path):
    assert run(make_spec("import os; os.kill(os.getpid(), 9)")).returncode == 1
    assert (record(tmp_path)["state"], record(tmp_path)["signal"]) == ("failed", "SIGKILL")


def test_what_cannot_be_started_is_recorded(make_spec, tmp_path):
    assert run(make_spec("", argv=["/nonexistent/python"])).returncode == 127
    assert record(tmp_path)["state"] == "failed"
    assert "could not be started" in record(tmp_path)["reason"]


def test_arguments_and_environment_arrive_as_given(make_spec, tmp_path):
    arguments = ["two words", "'", '"', "$HOME", "100%", "%n", "a\nb", "ü☃", "", "--x"]
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['ODD'], 'PATH' in os.environ]))"
    run(make_spec(code, *arguments, environment={"ODD": "a b\n$c ü"}))
    assert json.loads(log(tmp_path)) == [arguments, "a b\n$c ü", True]


def test_the_login_shells_environment_is_there_and_the_jobs_goes_first(make_spec, tmp_path):
    (tmp_path / ".bash_profile").write_text("echo noise; export FROM_PROFILE=1 OVERRIDDEN=profile\n")
    code = "import os; print(os.environ['FROM_PROFILE'], os.environ['OVERRIDDEN'])"
    run(make_spec(code, environment={"OVERRIDDEN": "job"}), HOME=str(tmp_path))
    assert log(tmp_path) == "1 job\n"


def test_the_time_limit_ends_it(make_spec, tmp_path):
    assert run(make_spec("import time; time.sleep(60)", time_limit=1)).returncode != 0
    assert (record(tmp_path)["state"], record(tmp_path)["reason"]) == ("failed", "reached its time limit of 1 s")


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("import time; print('up'); time.sleep(60)", {"signal": "SIGTERM"}),
        ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(60)", {"signal": "SIGKILL"}),
        ("import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('up'); time.sleep(60)", {"exit_code": 0}),
    ],
    ids=["terminates", "has to be killed", "ends well"],
)
def test_stop_asks_then_kills(make_spec, tmp_path, code, outcome):
    spec = make_spec(code, stop_timeout=1)
    process = subprocess.Popen([sys.executable, str(PROGRAM), "run", str(spec)])
    wait_for(lambda: "up" in log(tmp_path))
    assert record(tmp_path)["state"] == "running"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    found = record(tmp_path)
    assert found["state"] == "stopped"
    assert {key: found[key] for key in outcome} == outcome


def test_finish_completes_the_record_of_a_killed_supervisor(make_spec, tmp_path):
    spec = make_spec("import time; print('up'); time.sleep(60)")
    process = subprocess.Popen([sys.executable, str(PROGRAM), "run", str(spec)], start_new_session=True)
    wait_for(lambda: "up" in log(tmp_path))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)
    assert record(tmp_path)["state"] == "running"
    run(spec, "finish", SERVICE_RESULT="oom-kill", EXIT_STATUS="KILL")
    assert record(tmp_path)["state"] == "failed"
    assert record(tmp_path)["reason"] == "was ended by the system: oom-kill (KILL)"


def test_finish_leaves_a_complete_record_alone(make_spec, tmp_path):
    spec = make_spec("pass")
    run(spec)
    before = record(tmp_path)
    run(spec, "finish", SERVICE_RESULT="success", EXIT_STATUS="0")
    assert record(tmp_path) == before


def test_heartbeats_go_on_while_it_runs(make_spec, tmp_path, monkeypatch):
    monkeypatch.setattr(job_supervisor, "HEARTBEAT_INTERVAL", 0.0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    written = []
    monkeypatch.setattr(job_supervisor, "write_record", lambda path, found: written.append(dict(found)))
    supervisor = job_supervisor.Supervisor(json.loads(make_spec("import time; time.sleep(1.5)").read_text()))
    assert supervisor.run() == 0
    beats = [found["heartbeat"] for found in written if found["state"] == "running"]
    assert len(beats) >= 2
    assert beats == sorted(set(beats))


def test_storage_that_cannot_be_written_does_not_end_the_training(make_spec, tmp_path, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def full(path, found):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job_supervisor, "write_record", full)
    assert job_supervisor.Supervisor(json.loads(make_spec("print('done')").read_text())).run() == 0
    assert log(tmp_path) == "done\n"
