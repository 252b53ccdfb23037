"""Tests of custom health checks."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode, HealthFinding
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import custom_checks
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.run import run
from local_cloud.testing import wait_until

NODE = CheckedNode(getpass.getuser())


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def found(script, seconds=60):
    return run([custom_checks.check(custom_checks.CustomCheck("own", script.encode()), seconds)], NODE)


@pytest.mark.parametrize(
    ("script", "messages"),
    [
        ("exit 0", []),
        ("echo fine; exit 0", []),
        ("echo; echo the fan is loud; echo details; exit 1", ["the fan is loud"]),
        ("echo to stderr >&2; exit 3", ["to stderr"]),
        ("exit 7", ["exit status 7"]),
        ("kill -9 $$", ["exit status -9"]),
    ],
)
def test_the_exit_status_decides_and_the_first_line_is_told(home, script, messages):
    assert found(f"#!/bin/sh\n{script}\n") == [HealthFinding("own", "restart", message) for message in messages]
    assert os.listdir(home) == []


def test_a_check_that_takes_too_long_is_ended_with_its_children(home):
    own = home / "processes"
    script = f"#!/bin/sh\nsleep 3600 &\necho $$ $! > {own}.new; mv {own}.new {own}\nwait\n"
    assert found(script, seconds=2) == [HealthFinding("own", "restart", "no result within 2 s")]
    assert os.listdir(home) == ["processes"]
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in own.read_text().split()))


def test_a_file_that_is_no_program():
    (finding,) = found("no program")
    assert (finding.check, finding.severity) == ("own", "monitor")
    assert "Exec format error" in finding.message
