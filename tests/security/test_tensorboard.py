"""Only TensorBoard's own service may use TensorBoard's port, not a job that took the port first (L15 of the security review)."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TASKS = Path(__file__).resolve().parents[2] / "roles/tensorboard/tasks/started.yml"

# Listens on a port. The name of the process imitates the entry that ss shows for the process with the PID in the argument.
FOREIGN = """
import ctypes, socket, sys, time
ctypes.CDLL(None).prctl(15, f"a\\",pid={sys.argv[1]},".encode(), 0, 0, 0)
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def block():
    (found,) = [task for task in yaml.safe_load(TASKS.read_text()) if task["name"] == "Wait until TensorBoard responds"]
    return found


@pytest.fixture
def is_own(block, tmp_path):
    """Return a function that returns whether the role accepts a port if systemd reports this PID as the service's main process."""
    (check,) = [task for task in block["block"] if task["name"] == "Wait until the service itself listens"]
    program = tmp_path / "systemctl"

    def asked(pid, port):
        program.write_text(f'#!/bin/sh\n[ "$*" = "show --property=MainPID --value deeplearning-tensorboard.service" ] && echo {pid}\n')
        program.chmod(0o755)
        words = {"{{ __tensorboard_unit }}": "deeplearning-tensorboard.service", "{{ tensorboard_port }}": str(port)}
        argv = [words.get(word, word) for word in check["ansible.builtin.command"]["argv"]]
        return subprocess.run(argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, check=False).returncode == 0

    return asked


def test_a_secret_path_is_valid_only_until_the_service_or_a_tunnel_is_opened_again(tmp_path):
    """Another user of the controller can listen on the port of a tunnel that has ended, and read the path from a browser's request."""
    (task,) = [task for task in yaml.safe_load(TASKS.read_text()) if task.get("register") == "__tensorboard_secret"]
    script = task["ansible.builtin.command"]["argv"][2]

    def path(tunnel, *, is_active):
        (tmp_path / "systemctl").write_text(f"#!/bin/sh\n[ $3 = tensorboard.service ] && {str(is_active).lower()}\n")
        (tmp_path / "systemctl").chmod(0o755)
        argv = ["sh", "-c", script, "sh", str(tmp_path / "secret"), tunnel, "tensorboard.service"]
        done = subprocess.run(argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr

    first, created = path("same", is_active=False)
    assert re.fullmatch("DEEPLEARNING_TENSORBOARD_PATH=/[0-9a-f]{32}\n", first)
    assert created
    assert path("same", is_active=True) == (first, "")
    second, created = path("new", is_active=True)
    assert second != first
    assert created
    assert path("same", is_active=False)[0] != second


@pytest.fixture
def foreign_port():
    with subprocess.Popen([sys.executable, "-c", FOREIGN, str(os.getpid())], stdout=subprocess.PIPE, text=True) as process:
        yield int(process.stdout.readline())
        process.terminate()


def test_only_the_service_s_own_process_may_have_the_port(is_own, foreign_port):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_own(os.getpid(), port)
        assert not is_own(os.getppid(), port)
        assert not is_own("", port)
        assert not is_own(0, port)
    assert not is_own(os.getpid(), port)
    assert not is_own(os.getpid(), foreign_port)


def test_the_service_may_have_children_with_the_port_but_nobody_else_beside_it(is_own):
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.bind(("127.0.0.1", 0))
        own.listen()
        port = own.getsockname()[1]
        child = "import sys; print(flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", child], pass_fds=[own.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            process.stdout.readline()
            assert is_own(os.getpid(), port)
            process.stdin.close()
        other = (
            "import socket, sys; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1);"
            " s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(); print(flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", other, str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            assert not is_own(os.getpid(), port)
            process.stdin.close()


def test_the_check_is_made_before_anybody_is_sent_there(block):
    tasks = yaml.safe_load(TASKS.read_text())
    assert block["block"][0]["name"] == "Wait until the service itself listens"
    assert block["rescue"][-1]["ansible.builtin.fail"]
    assert [task["name"] for task in tasks].index("Open a tunnel") > tasks.index(block)


def test_no_job_can_take_the_port_while_the_service_starts_again():
    defaults = yaml.safe_load((TASKS.parents[1] / "defaults/main.yml").read_text())
    assert defaults["tensorboard_port"] < 1024, "ordinary users cannot open the port"
    assert defaults["tensorboard_local_port"] >= 1024, "the operator is an ordinary user"
    unit = (TASKS.parents[1] / "templates/tensorboard.service.j2").read_text()
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n" in unit
