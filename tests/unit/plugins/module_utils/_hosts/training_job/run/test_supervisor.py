"""Tests of the supervisor of one process. The tests run the supervisor as a program, in the same way as on hosts."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import types
from multiprocessing.connection import Client
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import programs
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import attempts, supervisor
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, explanations, records, recovery
from local_cloud.testing import wait_until

from ..conftest import with_tmpfs


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program file of the supervisor, as it is copied to hosts."""
    path = tmp_path_factory.mktemp("program") / "supervisor.zip"
    path.write_bytes(programs.build(systemd.SUPERVISOR))
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
            "directory": str(tmp_path),
            "heartbeat_timeout": 60,
            "hang_timeout": 0,
            "hang_steps": 0,
            "hang_minimum": 0,
            "host": "deeplearning-worker2",
            "instance": "i-0123456789abcdef0",
            "capacity_end": 0.0,
            "argv": [sys.executable, "-u", "-c", code, *arguments],
            "environment": {},
            "cwd": str(tmp_path),
            "programs": "/opt/pytorch/bin",
            "time_limit": 0,
            "stop_timeout": 30,
            "own_profile": False,
            "peers": ["deeplearning-worker2", "10.0.0.2"],
            "attempt": 1,
            "restarts": 0,
            "launcher": "torchrun",
            "metrics_directory": "",
            "cluster": "demo",
            "slot": 0,
            "parameters": {},
            **changes,
        }
        path = tmp_path / "spec.json"
        path.write_text(json.dumps(spec))
        return path

    return make


@pytest.fixture
def run(program):
    def run_it(spec, action="run", **environment):
        command = [sys.executable, "-I", str(program), action, str(spec)]
        return subprocess.run(command, timeout=300, check=False, env={**os.environ, **environment})

    return run_it


@pytest.fixture
def begin(program):
    """Return a function that starts a supervisor and returns its process, which is killed after the test."""
    started = []

    hurry = f"""
        import sys
        sys.path.insert(0, {str(program)!r})
        from {supervisor.__name__} import main
        sys.modules[main.__module__].POLL_INTERVAL = sys.modules[main.__module__].HEARTBEAT_INTERVAL = 0.2
        sys.argv[0] = sys.path[0]
        sys.exit(main(sys.argv[1:]))
    """

    def begin_it(spec):
        started.append(subprocess.Popen([sys.executable, "-c", textwrap.dedent(hurry), "run", str(spec)], start_new_session=True))
        return started[-1]

    yield begin_it
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def record(tmp_path):
    return json.loads((tmp_path / "status/rank1.json").read_text())


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
    assert explanations.describe_failure(record(tmp_path)) == (
        f"rank 1 on deeplearning-worker2 ended with exit status 3 while {small} was full (0 bytes of 512 KiB free)"
    )


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (35, "35")])
def test_a_signal_is_recorded(run, make_spec, tmp_path, number, name):
    assert run(make_spec(f"import os; os.kill(os.getpid(), {number})")).returncode == 1
    assert (record(tmp_path)["state"], record(tmp_path)["signal"]) == ("failed", name)


def test_what_cannot_be_started_is_recorded(run, make_spec, tmp_path):
    assert run(make_spec("", argv=["/nonexistent/python"])).returncode == 127
    assert record(tmp_path)["state"] == "failed"
    assert "could not be started" in record(tmp_path)["reason"]


@pytest.mark.parametrize(
    ("groups", "events", "count"),
    [
        ("0::/deeplearning.slice/x.service\n", "low 0\noom 1\noom_kill 2\n", 2),
        ("0::/deeplearning.slice/x.service\n", "low 0\noom_kill 0\n", 0),
        ("0::/deeplearning.slice/x.service\n", "low 0\n", None),
        ("0::/deeplearning.slice/x.service\n", "no numbers", None),
        ("0::/other.service\n", "oom_kill 2\n", None),
        ("12:memory:/deeplearning.slice/x.service\n", "oom_kill 2\n", None),
        ("0:/deeplearning.slice/x.service\n", "oom_kill 2\n", None),
    ],
)
def test_the_kernel_counts_the_processes_that_it_has_killed_for_lack_of_memory(tmp_path, groups, events, count):
    (tmp_path / "cgroup").write_text(groups)
    (tmp_path / "deeplearning.slice" / "x.service").mkdir(parents=True)
    (tmp_path / "deeplearning.slice" / "x.service" / "memory.events").write_text(events)
    assert attempts.oom_kills(str(tmp_path / "cgroup"), str(tmp_path)) == count
    assert attempts.oom_kills(str(tmp_path / "nowhere"), str(tmp_path)) is None


# The groups of a process with cgroup v1, and the contents of memory.oom_control after the kernel has killed a process, on Linux 6.18.
GROUPS_V1 = """\
9:name=systemd:/deeplearning.slice/x.service
8:pids:/
5:devices:/
4:memory:/deeplearning.slice/x.service
1:cpu:/
0::/
"""
OOM_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"


@pytest.mark.parametrize(
    ("groups", "control", "count"),
    [
        (GROUPS_V1, OOM_CONTROL, 1),
        (GROUPS_V1.replace("4:memory:", "4:cpuset,memory:"), OOM_CONTROL, 1),
        (GROUPS_V1, OOM_CONTROL.replace("oom_kill 1", "oom_kill 0"), 0),
        (GROUPS_V1, "oom_kill_disable 0\nunder_oom 0\n", None),
        (GROUPS_V1.replace("memory:/deeplearning.slice/x.service", "memory:/deeplearning.slice"), OOM_CONTROL, None),
        (GROUPS_V1.replace("name=systemd", "name=other"), OOM_CONTROL, None),
    ],
    ids=["killed", "two controllers", "not killed", "before Linux 4.13", "memory of other units", "without systemd"],
)
def test_the_kernel_counts_with_the_first_version_of_cgroups_too(tmp_path, groups, control, count):
    (tmp_path / "cgroup").write_text(groups)
    for group in ("deeplearning.slice", "deeplearning.slice/x.service"):
        (tmp_path / "memory" / group).mkdir(parents=True)
        (tmp_path / "memory" / group / "memory.oom_control").write_text(control)
    assert attempts.oom_kills(str(tmp_path / "cgroup"), str(tmp_path)) == count


@pytest.mark.parametrize(("text", "count"), [("nr_free 7\noom_kill 3\n", 3), ("oom_kill\n", None), ("nr_free 7\n", None)])
def test_the_kernel_counts_the_kills_on_the_whole_host(tmp_path, text, count):
    (tmp_path / "vmstat").write_text(text)
    assert attempts.machine_oom_kills(str(tmp_path / "vmstat")) == count
    assert attempts.machine_oom_kills(str(tmp_path / "nowhere")) is None


@pytest.mark.parametrize(
    ("before", "now", "since"),
    [
        ((1, 5), (1, 6), 0),
        ((0, 5), (2, 7), 2),
        ((None, 5), (None, 5), 0),
        ((1, 5), (None, 5), 0),
        ((None, 5), (None, 6), None),
        ((None, None), (None, None), None),
    ],
)
def test_the_kills_since_an_earlier_count(monkeypatch, before, now, since):
    monkeypatch.setattr(attempts, "count_oom_kills", lambda: attempts.OomKills(*now))
    assert attempts.oom_kills_since(attempts.OomKills(*before)) == since


@pytest.mark.parametrize(("since", "message"), [(0, recovery.NOT_BY_OOM_KILLER), (None, None)])
def test_a_kill_that_is_not_for_lack_of_memory_is_recorded(monkeypatch, make_spec, tmp_path, since, message):
    spec = make_spec("")
    (tmp_path / "status").mkdir(exist_ok=True)
    watched = supervisor.Supervisor(json.loads(Path(spec).read_text()), str(spec))
    monkeypatch.setattr(attempts, "oom_kills_since", lambda _before: since)
    watched.finished(-9)
    assert record(tmp_path)["cause"].get("message") == message
    told = explanations.describe_failure(record(tmp_path))
    assert told.endswith("was killed by signal SIGKILL" + (f" ({message})" if message else ""))


@pytest.mark.parametrize(
    ("code", "kills", "reason"),
    [
        (-9, 1, "was killed by signal SIGKILL after the kernel's OOM killer had killed one of its processes"),
        (1, 1, "ended with exit status 1 after the kernel's OOM killer had killed one of its processes"),
        (0, 2, "ended with exit status 0 after the kernel's OOM killer had killed one of its processes"),
        (1, 0, None),
        (0, 0, None),
        (0, None, None),
    ],
)
def test_lack_of_memory_is_recorded(monkeypatch, make_spec, tmp_path, code, kills, reason):
    spec = make_spec("")
    (tmp_path / "status").mkdir(exist_ok=True)
    watched = supervisor.Supervisor(json.loads(Path(spec).read_text()), str(spec))
    monkeypatch.setattr(attempts, "oom_kills_since", lambda _before: kills)
    watched.finished(code)
    assert record(tmp_path).get("reason") == reason
    ended = f"ended with the job {explanations.OUT_OF_MEMORY}" if kills else "ended with the job"
    for state, kind, told in (("succeeded", "", ended), ("stopped", "", "was stopped"), ("failed", "time_limit", "was stopped")):
        watched.ended = supervisor.End(state, "ended with the job" if state == "succeeded" else "was stopped", kind)
        watched.finished(code)
        assert record(tmp_path)["reason"] == told


@pytest.mark.parametrize(
    "message",
    [
        "The server socket has failed to listen on any local network address. port: {}, useIpv6: false, message: address already in use",
        "[Errno 98] error while attempting to bind on address ('0.0.0.0', {}): address already in use (EADDRINUSE 0.0.0.0:{})",
    ],
)
def test_the_process_that_listens_on_the_jobs_port_is_named(message):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = supervisor.name_listener({"kind": recovery.SCRIPT_ERROR, "message": message.replace("{}", str(port))})
        assert found["message"].endswith(f" (process {os.getpid()} {Path('/proc/self/comm').read_text().strip()!r} listens on port {port})")
        other = {"kind": recovery.SCRIPT_ERROR, "message": f"bad value: {port}"}
        assert supervisor.name_listener(other) == other
    gone = {"kind": recovery.SCRIPT_ERROR, "message": message.replace("{}", str(port))}
    assert supervisor.name_listener(gone) == gone


def test_a_process_has_finished_before_its_log_is_read(monkeypatch, make_spec, tmp_path):
    spec, times = make_spec(""), []
    (tmp_path / "status").mkdir(exist_ok=True)
    watched = supervisor.Supervisor(json.loads(Path(spec).read_text()), str(spec))
    monkeypatch.setattr(attempts, "find_cause", lambda *_: times.append(time.time()) or {"kind": "exit_status", "what": "exit status 1"})
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
    assert (record(tmp_path)["state"], record(tmp_path)["reason"]) == ("failed", "reached its time limit of 1 s")


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
    assert (found["state"], found["reason"]) == ("stopped", "was stopped by an operator (for example with stop.yml)")
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
    assert (record(tmp_path)["state"], record(tmp_path)["reason"]) == ("failed", "was stopped because its host was shutting down")


@pytest.mark.parametrize(
    ("answer", "has_nologin", "expected"),
    [
        ("stopping", False, True),
        ("running", True, False),  # an administrator keeps users from logging in
        ("degraded", True, False),
        ("offline", True, True),  # in the sandbox
        ("offline", False, False),
        ("", True, True),
    ],
)
def test_a_shutdown_is_recognized_without_systemctl(tmp_path, monkeypatch, answer, has_nologin, expected):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text(f"#!/bin/sh\necho {answer}\nexit 1\n")
    (tmp_path / "bin" / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    if has_nologin:
        (tmp_path / "nologin").touch()
    assert supervisor.is_shutting_down(str(tmp_path / "nologin")) is expected


def test_a_shutdown_is_recognized_if_there_is_no_systemctl(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not supervisor.is_shutting_down(str(tmp_path / "nologin"))
    (tmp_path / "nologin").touch()
    assert supervisor.is_shutting_down(str(tmp_path / "nologin"))


def test_finish_completes_the_record_of_a_killed_supervisor(begin, run, make_spec, tmp_path):
    spec = make_spec("import time; print('up'); time.sleep(600)")
    process = begin(spec)
    wait_until(lambda: "up" in log(tmp_path))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(300)
    assert record(tmp_path)["state"] == "running"
    run(spec, "finish", SERVICE_RESULT="oom-kill", EXIT_STATUS="KILL")
    assert record(tmp_path)["state"] == "failed"
    assert record(tmp_path)["reason"] == "was killed by the system: oom-kill (KILL)"


@pytest.fixture
def private(tmp_path, monkeypatch):
    """Return a function that writes files to the private directories of a job, and a function that lists them."""
    monkeypatch.setattr(directories, "SHARED_MEMORY", str(tmp_path / "shm"))
    monkeypatch.setattr(directories, "TEMPORARY", str(tmp_path / "temporary"))
    monkeypatch.setattr(directories, "runtime_directory", lambda job, process: str(tmp_path / f"jobs/{job}-{process}"))

    def fill(job):
        for place in map(Path, directories.private_directories(job).values()):
            (place / "folder").mkdir(parents=True, exist_ok=True)
            (place / "folder/file").touch()
            (place / "link").symlink_to(tmp_path / "shm")
            (place / "psm_1234").touch()

    def names(job):
        return [sorted(os.listdir(place)) for place in directories.private_directories(job).values()]

    return fill, names


def test_the_last_process_of_a_job_empties_its_private_directories(private, tmp_path):
    fill, names = private
    for job in ("digits", "digits-2"):
        fill(job)
    units_of = [tmp_path / "jobs" / name for name in ("digits-rank0", "digits-rank1", "digits-2-rank0")]
    for directory in units_of:
        directory.mkdir(parents=True)
    full = [["folder", "link", "psm_1234"]] * 3
    supervisor.clean_up_last({"job": "digits", "environment": {}}, str(units_of[1] / "spec.json"))
    assert names("digits") == full, "rank 0 may still use them"
    supervisor.clean_up_last({"job": "digits", "environment": {}}, str(units_of[0] / "spec.json"))
    assert names("digits") == [[], [], []]
    assert names("digits-2") == full


def test_a_file_that_cannot_be_deleted_keeps_no_others(private, tmp_path, monkeypatch):
    """A directory at which the job's code is mounted cannot be deleted until its unit has ended."""
    fill, names = private
    fill("digits")
    (tmp_path / "jobs/digits-rank0").mkdir(parents=True)
    delete = supervisor.delete

    def fail_in_tmp(paths):
        delete(paths)
        if paths[0].startswith(directories.private_directories("digits")["/tmp"]):
            raise OSError("Device or resource busy")

    monkeypatch.setattr(supervisor, "delete", fail_in_tmp)
    with pytest.raises(OSError, match="busy"):
        supervisor.clean_up_last({"job": "digits", "environment": {}}, str(tmp_path / "jobs/digits-rank0/spec.json"))
    assert names("digits") == [[], [], []]


def test_an_attempt_does_not_find_what_the_one_before_has_left(private, tmp_path):
    """Files of the next attempt may already exist, also with an old modification time, for example from an archive."""
    fill, names = private
    fill("digits")
    lock = tmp_path / ".cache/torch_extensions/x/lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    place = Path(directories.private_directories("digits")["/tmp"])
    ready = time.time() + 0.05
    wait_until(lambda: time.time() > ready + 0.05)  # more than the resolution of the times of files
    (place / "unpacked").touch()
    os.utime(place / "unpacked", (0, 0))
    supervisor.clean_up({"job": "digits", "environment": {"HOME": str(tmp_path)}}, ready)
    assert names("digits") == [[], ["unpacked"], []]
    assert not lock.exists()


def test_finish_leaves_the_record_of_another_host_alone(make_spec):
    """The job was started again with the same name on other hosts, while this host could not be reached."""
    spec = json.loads(make_spec("pass").read_text())
    paths = directories.Paths(spec["directory"])
    os.makedirs(paths.status, exist_ok=True)
    record = {**supervisor.first_record(spec), "host": "worker9"}
    records.write_json(paths.record(spec["name"]), record)
    supervisor.finish(spec, "success", "0")
    found = records.read_record(paths.record(spec["name"]))
    assert (found["host"], found["state"]) == ("worker9", "running")
    assert records.read_verdict(paths) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"restarts": 0}, False),
        ({"part": "standby"}, False),
        ({"parameters": {"health_check": True, "health_interval": 0}}, False),
        ({"parameters": {"health_check": False, "health_interval": 300}}, False),
        ({"parameters": {}}, False),
    ],
)
def test_health_checks_for_other_jobs_do_not_end_an_attempt(make_spec, changes, expected):
    spec = {
        **json.loads(make_spec("pass").read_text()),
        "restarts": 3,
        "parameters": {"health_check": True, "health_interval": 300},
        **changes,
    }
    assert supervisor.heeds_health(spec) == expected


def test_finish_leaves_a_complete_record_alone(run, make_spec, tmp_path):
    spec = make_spec("pass")
    run(spec)
    before = record(tmp_path)
    run(spec, "finish", SERVICE_RESULT="success", EXIT_STATUS="0")
    assert record(tmp_path) == before


def test_heartbeats_go_on_while_it_runs(make_spec, tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "HEARTBEAT_INTERVAL", 0.0)
    monkeypatch.setattr(supervisor, "POLL_INTERVAL", 0.2)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    written = []
    monkeypatch.setattr(supervisor, "write_json", lambda path, found: written.append(dict(found)))
    assert supervise(make_spec("import time; time.sleep(1.5)")) == 0
    beats = [found["heartbeat"] for found in written if found["state"] == "running"]
    assert len(beats) >= 3
    assert beats == sorted(set(beats))


def supervise(spec):
    return supervisor.Supervisor(json.loads(spec.read_text()), str(spec)).run()


def test_full_storage_does_not_end_the_training_and_it_is_heard_of(make_spec, tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "HEARTBEAT_INTERVAL", 0.0)
    monkeypatch.setattr(supervisor, "POLL_INTERVAL", 0.1)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    path = tmp_path / "status/rank1.json"
    others_record(tmp_path, "rank1", "running", heartbeat=1.0)
    os.utime(path, (1.0, 1.0))

    def full(path, found):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(supervisor, "write_json", full)
    assert supervise(make_spec("print('done')")) == 0
    assert log(tmp_path) == "done\n"
    assert records.read_record(str(path))["heartbeat"] > time.time() - 60


def others_record(tmp_path, name, state, **more):
    now = time.time()
    rank = int(name[-1])
    entry = {"name": name, "rank": rank, "ranks": [rank], "host": "deeplearning-worker1", "part": "worker", "processes": 2, "state": state}
    (tmp_path / "status").mkdir(exist_ok=True)
    (tmp_path / f"status/{name}.json").write_text(json.dumps({**entry, "started": now, "finished": now, "heartbeat": now, **more}))


LEAD = {"name": "rank0", "rank": 0, "host": "deeplearning-worker1"}
FAILURE = {"rank": 0, "ranks": [], "part": "service", "processes": 3, "state": "failed", "started": 1.0, "finished": 2.0, "heartbeat": 2.0}


def verdict(tmp_path):
    return json.loads((tmp_path / "status/over").read_text())


def test_the_lead_ends_the_job_when_another_process_has_failed(begin, make_spec, tmp_path):
    process = begin(make_spec("import time; time.sleep(600)", **LEAD))
    others_record(tmp_path, "rank1", "failed", host="deeplearning-worker2", exit_code=3)
    assert process.wait(300) == 0
    found = json.loads((tmp_path / "status/rank0.json").read_text())
    assert (found["state"], found["reason"]) == ("stopped", "was stopped because rank 1 on deeplearning-worker2 ended with exit status 3")
    assert (verdict(tmp_path)["state"], verdict(tmp_path)["failure"]["name"]) == ("failed", "rank1")


def test_whoever_stops_the_rest_of_a_failed_job_does_so_because_of_the_failure(begin, make_spec, tmp_path):
    others_record(tmp_path, "rank0", "failed", exit_code=3)
    process = begin(make_spec("import time; print('up', flush=True); time.sleep(600)"))
    wait_until(lambda: (tmp_path / "logs/rank1.log").exists() and (tmp_path / "logs/rank1.log").read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    assert (record(tmp_path)["state"], record(tmp_path)["reason"]) == (
        "stopped",
        "was stopped because rank 0 on deeplearning-worker1 ended with exit status 3",
    )


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
    ("outcome", "state", "reason"),
    [
        ({"state": "succeeded", "failure": None}, "succeeded", "ended with the job"),
        (
            {"state": "failed", "failure": {**FAILURE, "name": "ps0", "host": "w3", "signal": "SIGKILL"}},
            "stopped",
            "was stopped because ps 0 on w3 was killed by signal SIGKILL",
        ),
    ],
)
def test_the_others_end_with_the_verdict(begin, make_spec, tmp_path, outcome, state, reason):
    others_record(tmp_path, "rank0", "running")
    process = begin(make_spec("import time; time.sleep(600)", part="service"))
    wait_until((tmp_path / "status/rank1.json").exists)
    (tmp_path / "status/over").write_text(json.dumps(outcome))
    assert process.wait(300) == 0
    assert (record(tmp_path)["state"], record(tmp_path)["reason"]) == (state, reason)


@pytest.fixture
def supervised(make_spec, tmp_path):
    """Return a supervisor, the process that it has started, and the verdict that its watch will read."""
    spec = make_spec("")
    (tmp_path / "status").mkdir()
    result = supervisor.Supervisor(json.loads(Path(spec).read_text()), str(spec))
    result.watch.write()
    result.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    failure = {**supervisor.first_record(result.spec), "name": "rank0", "host": "deeplearning-worker1", "state": "failed", "exit_code": 1}
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

    monkeypatch.setattr(attempts, "still_connected", still_connected)
    supervised.watch.start()
    assert supervised.wait(supervised.child) == -signal.SIGTERM
    assert seen == [(False, None)]
    assert record(tmp_path).get("still_connected", "") == host
    assert supervised.ended.reason == "was stopped because rank 0 on deeplearning-worker1 ended with exit status 1"


@pytest.mark.parametrize("kind", ["hang", "script_error"])
def test_before_a_process_is_stopped_the_exception_for_which_others_have_waited_is_recorded(monkeypatch, supervised, tmp_path, kind):
    found = {"kind": "script_error", "what": "OSError at train.py, line 9"}
    monkeypatch.setattr(attempts, "raised", lambda _spec, _record: found)
    supervised.watch.poll()["failure"]["cause"] = {"kind": kind, "what": "a time-out of ALLREDUCE"}
    supervised.watch.start()
    supervised.wait(supervised.child)
    assert record(tmp_path).get("raised") == (found if kind == "hang" else None)


def test_the_connections_of_a_process_that_is_already_being_stopped_are_not_recorded(monkeypatch, supervised, tmp_path):
    monkeypatch.setattr(attempts, "still_connected", lambda _spec, _verdict: "deeplearning-worker1")
    supervised.stop(supervisor.FROM_OUTSIDE)
    supervised.watch.start()
    wait_until(lambda: supervised.watch.verdict)
    assert "still_connected" not in record(tmp_path)


def test_a_process_is_stopped_while_its_records_cannot_be_read(monkeypatch, supervised):
    """The watch's thread has read the verdict, and then the storage hangs."""
    began, ends = threading.Event(), threading.Event()

    def still_connected(_spec, _verdict):
        began.set()
        ends.wait(60)

    monkeypatch.setattr(attempts, "still_connected", still_connected)
    supervised.watch.start()
    assert began.wait(60)
    supervised.time_limit_at = time.monotonic()
    try:
        assert supervised.wait(supervised.child) == -signal.SIGTERM
        assert not ends.is_set()
    finally:
        ends.set()


def test_the_others_end_when_the_lead_is_not_heard_of(begin, make_spec, tmp_path):
    others_record(tmp_path, "rank0", "succeeded")
    process = begin(make_spec("import time; time.sleep(600)", heartbeat_timeout=1))
    assert process.wait(300) == 0
    assert "rank 0 on deeplearning-worker1 has sent no heartbeat" in record(tmp_path)["reason"]


def test_nobody_is_lost_while_storage_hangs(make_spec, tmp_path, monkeypatch):
    others_record(tmp_path, "rank0", "running")
    spec = json.loads(make_spec("").read_text())
    watch = supervisor.Watch({**spec, "heartbeat_timeout": 10}, {"name": "rank1"})
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
    monkeypatch.setattr(supervisor.threading, "Thread", lambda target, **_options: types.SimpleNamespace(start=target))
    monkeypatch.setattr(supervisor.stacks, "collect", lambda *_arguments: [])

    def make(name):
        spec = {**json.loads(make_spec("", name=name, hang_steps=3, restarts=3).read_text()), "environment": {}}
        return supervisor.Watch(spec, {**supervisor.first_record(spec), "restartable": True})

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
    assert watch.verdict["failure"]["cause"]["kind"] == recovery.HANG
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
