"""Tests that a snapshot's shell command and Python report the same data about files. A shell runs the command."""

from __future__ import annotations

import getpass
import os
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.managed_files import THIS, HostFile, agree
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import converge
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import snapshot

USER = getpass.getuser()


class Action:
    """A stub of a task's action plugin on this host. With a terminal, lines end with a carriage return and a line feed."""

    def __init__(self, terminal=False):
        self.terminal = terminal

    def _low_level_execute_command(self, command):
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout.replace("\n", "\r\n") if self.terminal else done.stdout}


@pytest.fixture
def files(tmp_path):
    text, empty, strange = tmp_path / "text", tmp_path / "empty", tmp_path / "with 'quotes' and $HOME"
    text.write_text("first\nsecond, without an end \u00e4")
    text.chmod(0o640)
    empty.touch()
    strange.write_bytes(b"\xff\x00\n")
    return [str(path) for path in (text, empty, strange, tmp_path, tmp_path / "missing")]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_snapshot_shows_what_is_there(files, terminal):
    found = snapshot.take(Action(terminal), USER, files)
    for path in files:
        assert found.find(path) == THIS.find(path)
        assert found.exists(path) == os.path.exists(path)
    assert found.account(USER) == THIS.account(USER)
    assert found.account("root") == THIS.account("root")
    assert (found.status, found.output) == (0, "")


def test_of_a_secret_no_content_is_read(files):
    found = snapshot.take(Action(), USER, [files[0] + "="])
    assert found.find(files[0]) == THIS.find(files[0])._replace(content="")


def test_paths_may_begin_in_the_home_of_the_user():
    found = snapshot.take(Action(), USER, ["~/no such file", "/"])
    assert not found.exists(os.path.join(THIS.account(USER).home, "no such file"))
    assert found.exists("/")


@pytest.mark.parametrize(
    ("command", "status", "output"), [("echo two words", 0, "two words"), ("false", 1, ""), ("no-such-command -L", 127, "")]
)
def test_a_snapshot_runs_a_command(command, status, output):
    found = snapshot.take(Action(), USER, [], command)
    assert (found.status, found.output) == (status, output)


def test_no_snapshot_of_an_unknown_user_or_of_a_shell_that_says_something_else():
    assert snapshot.take(Action(), "nobody-of-that-name", ["/"]) is None
    action = Action()
    action._low_level_execute_command = lambda _command: {"rc": 0, "stdout": "Welcome!\n"}
    assert snapshot.take(action, USER, ["/"]) is None


def test_files_agree_by_content_mode_and_owner(files):
    path = files[0]
    host = snapshot.take(Action(), USER, [path, files[-1]])
    right = HostFile(path, THIS.read(path), mode=0o640, owner=USER)
    assert agree([right, HostFile(files[-1], None)], host)
    assert not agree([right._replace(content="other")], host)
    assert not agree([right._replace(mode=0o644)], host)
    assert not agree([right._replace(content=None)], host)
    assert not agree([HostFile(files[-1], "")], host)


def run(action, arguments, check):
    return snapshot.inspect(action, snapshot.Inspection(arguments, converge.SPECIFICATION, check))


GOOD = {"owner": USER, "lustre_source": "a@tcp:/b"}


def finds(path):
    """Return a check that returns the content of a file, or None if there is no such file."""

    def check(_parameters):
        host = yield snapshot.Request(USER, [path])
        return {"found": host.find(path).content} if host.exists(path) else None

    return check


@pytest.mark.parametrize("terminal", [False, True])
def test_one_command_makes_several_inspections(files, terminal):
    calls, action = [], Action(terminal)
    run_command = action._low_level_execute_command
    action._low_level_execute_command = lambda command: calls.append(command) or run_command(command)
    inspections = [snapshot.Inspection(GOOD, converge.SPECIFICATION, finds(path)) for path in files]
    assert snapshot.inspect(action, *inspections[:2]) == [{"found": THIS.read(path)} for path in files[:2]]
    assert snapshot.inspect(action, *inspections[:2], inspections[-1]) is None
    assert len(calls) == 2


def test_a_host_that_prints_more_answers_than_there_are_inspections_is_not_believed(files):
    action = Action()
    run_command = action._low_level_execute_command
    action._low_level_execute_command = lambda command: {"rc": 0, "stdout": "---\n".join([run_command(command)["stdout"]] * 2)}
    assert run(action, GOOD, finds(files[0])) is None


def test_what_the_module_refuses_is_left_to_the_module(files):
    def never(_parameters):
        raise AssertionError("the module must not be called")
        yield

    both = {"owner": USER, "file_system_id": "fs-1", "region": "us-east-1", "lustre_source": "a@tcp:/b"}
    for arguments in ({}, {"owner": USER}, both, {**both, "state": "gone"}):
        assert run(Action(), arguments, never) is None
    assert run(Action(), GOOD, finds(files[0])) == [{"found": THIS.read(files[0])}]

    def refuse(_parameters):
        yield snapshot.Request(USER, [])
        raise ValueError("no")

    def cannot_inspect(_parameters):
        return None
        yield

    assert run(Action(), GOOD, refuse) is None
    assert run(Action(), GOOD, cannot_inspect) is None
