# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
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
    assert paths == ["/cp/i-0123456789abcdef0-%r", "/cp/i-0fedcba9876543210-%r"]


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
    nodes = [Node(f"c-{n}", f"c-{n}", ("master", "workers")[n], n, f"i-{n}", "c5.large", "us-east-1a", f"10.0.0.{n}", None) for n in (0, 1)]
    arguments = shlex.split(
        SshConnections(JUMP, "ubuntu", None, "/x" * 60, nodes[0], "us-east-1").variables(nodes[1])["ansible_ssh_common_args"]
    )
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
    started = [connect() for _ in range(3)]
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
