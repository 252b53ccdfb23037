from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.inventory import Node
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_connections import DIRECT, JUMP, SshConnections
from local_cloud.testing import wait_until

# Ansible's default. ssh ends a proxy command after this many seconds without an answer.
CONNECT_TIMEOUT = 10


def test_nodes_of_two_clusters_with_the_same_address_share_no_open_connection():
    """Ansible's own name for the socket of an open connection depends only on the address, the port and the user."""
    found = []
    for instance_id in ("i-0123456789abcdef0", "i-0fedcba9876543210"):
        node = Node(**{**dict.fromkeys(Node.__dataclass_fields__, "x"), "instance_id": instance_id, "private_ip": "10.0.0.4"})
        connections = SshConnections(DIRECT, "ubuntu", None, "/ssh", node, "us-east-1")
        found.append(connections.variables(node))
    assert found[0]["ansible_host"] == found[1]["ansible_host"]
    paths = [variables["ansible_control_path"] % {"directory": "/cp"} for variables in found]
    assert paths == ["/cp/789abcdef0-%r", "/cp/9876543210-%r"]


def worker_variables(ssh_args=""):
    """Return the inventory variables of a worker behind the master."""
    nodes = [Node(f"c-{n}", f"c-{n}", ("master", "workers")[n], n, f"i-{n}", "c5.large", "us-east-1a", f"10.0.0.{n}", None) for n in (0, 1)]
    return SshConnections(JUMP, "ubuntu", None, "/x" * 60, nodes[0], "us-east-1", ssh_args=ssh_args).variables(nodes[1])


# The arguments that many projects pass to ssh for all hosts.
HOSTILE = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/x -o HostKeyAlias=x -o ProxyCommand=none"
SHARED = "-C -o ControlMaster=auto -o ControlPersist=60s"


def effective(monkeypatch, variables, settings):
    """Return the settings with which the real ssh connects, after Ansible has built its command line."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    connection = connection_loader.get("ssh", PlayContext(), None)
    connection.set_options(var_options=variables)
    command = [word.decode() for word in connection._build_command("ssh", "ssh", variables["ansible_host"], "true")]
    shown = subprocess.run(["ssh", "-G", "-F", "/dev/null", *command[1:]], capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in shown.splitlines())


@pytest.mark.parametrize(
    "settings",
    [
        {"ANSIBLE_HOST_KEY_CHECKING": "False"},
        {"ANSIBLE_SSH_HOST_KEY_CHECKING": "False"},
        {"ANSIBLE_SSH_ARGS": HOSTILE},
        {"ANSIBLE_SSH_ARGS": f"-F /dev/null {SHARED} {HOSTILE}", "ANSIBLE_HOST_KEY_CHECKING": "False"},
        {"ANSIBLE_SSH_COMMON_ARGS": HOSTILE},
        {"ANSIBLE_SSH_EXTRA_ARGS": HOSTILE},
    ],
)
def test_no_setting_of_the_operator_ends_the_verification_of_host_keys(monkeypatch, settings):
    """Many projects disable it for all hosts, and AWX has a switch for it. ssh uses the first value of each option."""
    variables = worker_variables(settings.get("ANSIBLE_SSH_ARGS", SHARED))
    found = effective(monkeypatch, variables, settings)
    assert found["stricthostkeychecking"] == "true"
    assert found["userknownhostsfile"] == f"{'/x' * 60}/known_hosts"
    assert found["globalknownhostsfile"] == "/dev/null"
    assert found["hostkeyalias"] == "i-1"
    assert "10.0.0.0" in found["proxycommand"], "the connection goes through the master"


@pytest.mark.parametrize(
    "given",
    [
        f"{SHARED} -o ControlPath=/tmp/%h-%r",
        f"{SHARED} -oControlPath=/tmp/%h-%r",
        f"{SHARED} -o 'controlpath /tmp/%h-%r'",
        f"{SHARED} -S /tmp/%h-%r",
        SHARED,
    ],
)
def test_shared_connections_are_those_of_the_instance(monkeypatch, tmp_path, given):
    """A socket that is named after an address leads to whichever node had the address when it was opened."""
    found = effective(monkeypatch, worker_variables(given), {"ANSIBLE_SSH_ARGS": given, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(tmp_path)})
    assert found["controlpath"] == f"{tmp_path}/i-1-ubuntu"
    assert found["compression"] == "yes", "other arguments keep their effect"


def test_without_persistence_no_connection_is_shared(monkeypatch):
    """The operator's SSH configuration may name a socket after an address."""
    assert effective(monkeypatch, worker_variables("-C"), {"ANSIBLE_SSH_ARGS": "-C"})["compression"] == "yes"
    assert "ControlPath=none" in shlex.split(worker_variables("-C")["ansible_ssh_args"])
    assert "ControlPath=none" not in shlex.split(worker_variables(SHARED)["ansible_ssh_args"])


# Accepts each connection. The command `true` ends as the file `ends` says.
SSH = '#!/bin/sh\ncd "${0%/*}"; case "$*" in *" true") echo $$ >> opening; exec ./ends;; *) echo "$*" >> connected;; esac\n'


def executable(path, content):
    path.write_text(content)
    path.chmod(0o755)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with a stand-in for ssh, and the home directory, whose path is short enough for sockets."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    executable(tmp_path / "ssh", SSH)
    executable(tmp_path / "ends", "#!/bin/sh\nexec sleep 1000\n")
    with tempfile.TemporaryDirectory(prefix="home-") as home:
        monkeypatch.setenv("HOME", home)
        (Path(home) / ".ssh").mkdir()
        yield tmp_path


def connect():
    """Connect to a worker through the master that never ends a command."""
    arguments = shlex.split(worker_variables()["ansible_ssh_args"])
    (command,) = (each.removeprefix("ProxyCommand=") for each in arguments if each.startswith("ProxyCommand="))
    return subprocess.Popen(["sh", "-c", f"exec {command}"], stdin=subprocess.DEVNULL)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_a_killed_process_does_not_block_the_others(folder):
    first = connect()
    wait_until(lambda: lines(folder / "opening"))
    first.kill()
    first.wait()
    os.kill(int(lines(folder / "opening")[0]), signal.SIGKILL)
    executable(folder / "ends", "#!/bin/sh\n")
    assert connect().wait(CONNECT_TIMEOUT) == 0
    assert len(lines(folder / "opening")) == 2, "the second process opens the shared connection"
    assert len(lines(folder / "connected")) == 1


def test_a_master_that_never_answers_does_not_block_connections(folder):
    """Each process still connects on its own, before ssh gives up."""
    started = [connect() for _number in range(3)]
    assert [each.wait(CONNECT_TIMEOUT) for each in started] == [0, 0, 0]
    assert len(lines(folder / "connected")) == 3
    wait_until(lambda: not any(Path(f"/proc/{opening}").exists() for opening in lines(folder / "opening")))
    assert list(Path(os.environ["HOME"], ".ssh").iterdir()) == []


def test_an_end_of_the_opening_process_frees_the_lock(folder):
    first = connect()
    wait_until(lambda: lines(folder / "opening"))
    first.terminate()
    assert first.wait(CONNECT_TIMEOUT) == 255
    assert list(Path(os.environ["HOME"], ".ssh").iterdir()) == []
    (opening,) = lines(folder / "opening")
    wait_until(lambda: not Path(f"/proc/{opening}").exists())


def test_after_a_failed_login_the_next_process_opens_the_shared_connection(folder):
    """On a busy machine, the others see that the lock exists, and no longer find it when they read it."""
    executable(folder / "readlink", '#!/bin/sh\nsleep 2\nexec /usr/bin/readlink "$@"\n')
    executable(folder / "ends", "#!/bin/sh\nsleep 1\nexit 255\n")
    first = connect()
    wait_until(lambda: lines(folder / "opening"))
    second = connect()
    assert first.wait(CONNECT_TIMEOUT) == 0
    assert second.wait(CONNECT_TIMEOUT) == 0
    assert len(lines(folder / "opening")) == 2


def test_without_a_place_for_the_lock_each_process_connects_at_once(folder):
    Path(os.environ["HOME"], ".ssh").rmdir()
    assert connect().wait(CONNECT_TIMEOUT) == 0
    assert lines(folder / "opening") == []


def test_the_real_ssh_runs_the_command(folder):
    """ssh expands percent signs in the command."""
    arguments = shlex.split(worker_variables()["ansible_ssh_args"])
    assert subprocess.run(["/usr/bin/ssh", "-F", "/dev/null", *arguments, "10.0.0.1"], check=False).returncode == 255
    assert "-W 10.0.0.1:22 " in lines(folder / "connected")[0]
