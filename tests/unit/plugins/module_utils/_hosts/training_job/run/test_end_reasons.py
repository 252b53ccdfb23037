"""Tests of how processes and units end."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import end_reasons, process_watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, failure_causes, records


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
        found = end_reasons.name_listener({"kind": failure_causes.SCRIPT_ERROR, "message": message.replace("{}", str(port))})
        assert found["listener"] == f"process {os.getpid()} {Path('/proc/self/comm').read_text().strip()!r}"
        assert found["port"] == port
        other = {"kind": failure_causes.SCRIPT_ERROR, "message": f"bad value: {port}"}
        assert end_reasons.name_listener(other) == other
    gone = {"kind": failure_causes.SCRIPT_ERROR, "message": message.replace("{}", str(port))}
    assert end_reasons.name_listener(gone) == gone


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
    assert end_reasons.is_shutting_down(str(tmp_path / "nologin")) is expected


def test_a_shutdown_is_recognized_if_there_is_no_systemctl(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not end_reasons.is_shutting_down(str(tmp_path / "nologin"))
    (tmp_path / "nologin").touch()
    assert end_reasons.is_shutting_down(str(tmp_path / "nologin"))


def test_finish_leaves_the_record_of_another_host_alone(make_spec):
    """The job was started again with the same name on other hosts, while this host could not be reached."""
    spec = json.loads(make_spec("pass").read_text())
    paths = directories.Paths(spec["directory"])
    os.makedirs(paths.status, exist_ok=True)
    record = {**process_watch.first_record(spec), "host": "worker9"}
    records.write_json(paths.record(spec["name"]), record)
    end_reasons.finish(spec, "success", "0")
    found = records.read_record(paths.record(spec["name"]))
    assert (found["host"], found["state"]) == ("worker9", "running")
    assert records.read_verdict(paths) is None
