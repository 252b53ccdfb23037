"""Tests of the program that runs health checks for supervisors, and of the supervisor's side of the connection."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import HealthFinding
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import programs
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import answers_to_supervisors, service
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import host_health
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions

REPLACE = HealthFinding("xid", "replace", "GPU 0000:64:00: Xid 79 (the GPU has fallen off the bus).")
REBOOT = HealthFinding("root", "reboot", "/: is read-only.")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(host_health, "SOCKET", str(tmp_path / "socket"))
    monkeypatch.setattr(host_health, "INTERVAL", 0.05)
    monkeypatch.setattr(host_health, "ABSENCE", 0.5)
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "health/exclusions.json"))
    monkeypatch.setattr(exclusions, "OWNER", os.geteuid())
    monkeypatch.setattr(answers_to_supervisors, "IDLE", 0.3)
    return tmp_path


@pytest.fixture
def listener():
    with socket.socket(socket.AF_UNIX) as result:
        result.bind(host_health.SOCKET)
        result.listen()
        yield result


def spec(check=True, reboot=True):
    return {"job": "digits", "parameters": {"health_check": check, "reboot": reboot}, "instance": ""}


def find(check=True, is_ending=lambda: False, reboot=True):
    return host_health.find_unfit(spec(check, reboot), is_ending)


def answering(listener, *findings):
    calls = []
    thread = threading.Thread(
        target=answers_to_supervisors.serve, args=(listener, lambda: calls.append(1) or [finding._asdict() for finding in findings])
    )
    thread.start()
    return thread, calls


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], None),
        ([REBOOT], {"why": "reboot", "what": "/: is read-only"}),
        ([REBOOT, REPLACE], {"why": "replace", "what": "GPU 0000:64:00: Xid 79 (the GPU has fallen off the bus)"}),
    ],
)
def test_the_worst_finding_is_the_reason_why_a_host_is_unfit(listener, findings, expected):
    thread, calls = answering(listener, *findings)
    assert find() == expected
    assert find() == expected
    thread.join(10)
    assert not thread.is_alive(), "the program ends when there are no requests"
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("job", "reboot", "waits"), [("digits", True, True), ("digits", False, False), ("other", True, False), ("", True, False)]
)
def test_a_host_that_reboots_says_so_to_the_job_that_it_starts_again(listener, job, reboot, waits):
    def reply():
        with listener.accept()[0] as connection:
            connection.sendall(json.dumps([{**REBOOT._asdict(), "reboots": job}]).encode())

    threading.Thread(target=reply, daemon=True).start()
    assert find(reboot=reboot) == {"why": "reboot", "what": "/: is read-only", **({"reboots": True} if waits else {})}


def test_requests_at_the_same_time_share_one_result(listener):
    waiting = []
    for _number in range(4):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(host_health.SOCKET)
        waiting.append(connection)
    thread, calls = answering(listener, REBOOT)
    for connection in waiting:
        with connection:
            assert json.loads(connection.recv(1 << 16)) == [REBOOT._asdict()]
    thread.join(10)
    assert calls == [1]


def test_many_requests_do_not_hide_a_finding(place):
    """A user makes more connections than the service may have open files, also while the checks run."""
    program = f"""
        import resource, socket, sys, time
        sys.path.insert(0, {str(place / "health.zip")!r})
        from {answers_to_supervisors.__name__} import serve
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        serve(socket.socket(fileno=int(sys.argv[1])), lambda: open("/dev/null").close() or time.sleep(0.5) or [{REPLACE._asdict()!r}])
    """
    (place / "health.zip").write_bytes(programs.build("_hosts.node_health.service"))
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as stack:
        listener.bind(host_health.SOCKET)
        listener.listen(1000)
        connections = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _number in range(300)]
        for connection in connections:
            connection.connect(host_health.SOCKET)
        command = [sys.executable, "-c", textwrap.dedent(program), str(listener.fileno())]
        with subprocess.Popen(command, pass_fds=[listener.fileno()]) as server:
            assert find() == {"why": "replace", "what": REPLACE.message.rstrip(".")}
            assert json.loads(connections[-1].recv(1 << 16)) == [REPLACE._asdict()]
            assert server.poll() is None
            server.terminate()


INVALID = [b"", b"[", b"{}", b'[{"severity": "monitor", "message": "m"}]', b"[1]", b"[]" + b" " * (2 << 20)]


@pytest.mark.parametrize("answer", INVALID)
def test_a_request_is_repeated_until_the_answer_is_valid(listener, answer):
    def reply():
        for each in (answer, json.dumps([REBOOT._asdict()]).encode()):
            with contextlib.suppress(OSError), listener.accept()[0] as connection:
                connection.sendall(each)

    threading.Thread(target=reply, daemon=True).start()
    assert find() == {"why": "reboot", "what": "/: is read-only"}


@pytest.mark.parametrize("answer", INVALID)
def test_an_answer_that_stays_invalid_counts_as_no_finding(listener, answer, monkeypatch):
    def reply():
        while listener.fileno() >= 0:  # until the test has closed it
            with contextlib.suppress(OSError), listener.accept()[0] as connection:
                connection.sendall(answer)

    monkeypatch.setattr(host_health, "PATIENCE", 0.5)
    threading.Thread(target=reply, daemon=True).start()
    assert find() is None


def test_a_service_that_is_replaced_is_not_missing(place):
    def start():
        with socket.socket(socket.AF_UNIX) as late:
            late.bind(host_health.SOCKET)
            late.listen()
            answers_to_supervisors.serve(late, lambda: [REBOOT._asdict()])

    thread = threading.Timer(0.2, start)
    thread.start()
    assert find() == {"why": "reboot", "what": "/: is read-only"}
    thread.join(10)


def test_a_supervisor_does_not_wait_for_long(listener, monkeypatch):
    assert find(is_ending=lambda: True) is None
    monkeypatch.setattr(host_health, "PATIENCE", 0.3)
    before = time.monotonic()
    assert find() is None
    assert time.monotonic() - before < 10


def test_without_the_service_only_exclusions_count():
    assert find() is None
    found = (exclusions.Exclusion("person", "bad cable", 60.0), exclusions.Exclusion("xid", "Xid 79", 60.0))
    exclusions.write(exclusions.Memory("", found))
    assert find() == {
        "why": "excluded",
        "what": "since 1970-01-01 00:01 UTC by a person: bad cable. since 1970-01-01 00:01 UTC by the check xid: Xid 79.",
    }
    assert find(check=False) == {"why": "excluded", "what": "since 1970-01-01 00:01 UTC by a person: bad cable."}


def test_the_program_runs_without_ansible(listener, place):
    """The program gets the socket as file descriptor 3, as from systemd."""
    path = place / "health.zip"
    path.write_bytes(programs.build("_hosts.node_health.service"))
    settings = place / "settings.json"
    settings.write_text(json.dumps(service.Settings("", str(place), "p5.48xlarge", 0, False)._asdict()))
    start = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.execv(sys.executable, [sys.executable, '-I', *sys.argv[2:]])"
    command = [sys.executable, "-c", start, str(listener.fileno()), str(path), "answer", str(settings)]
    with subprocess.Popen(command, pass_fds=[listener.fileno()], env={"PATH": ""}) as program:
        assert host_health.ask(lambda: False) == []
        assert program.wait(60) == 0
