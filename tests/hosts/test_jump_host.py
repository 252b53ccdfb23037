"""The master forwards the connections to all workers, although its sshd has OpenSSH's default limits."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.inventory import Node
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import ssh_connections
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_connections import SshConnections
from local_cloud.testing import BareHost, bare_hosts, wait_until

CONNECTIONS = 60
PORT = 8000
# As sshd does, the server lets 128 connections wait. Python's servers otherwise refuse connections when more than five wait.
SERVER = f"""
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
ThreadingHTTPServer.request_queue_size = 128
ThreadingHTTPServer(("127.0.0.1", {PORT}), SimpleHTTPRequestHandler).serve_forever()
"""
REQUEST = b"GET / HTTP/1.0\r\n\r\n"
ANSWER = "HTTP/1.0 200 OK"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareHost]:
    """A host with OpenSSH's default limits that also runs a web server, in place of the SSH servers of workers."""
    with bare_hosts(tmp_path_factory.mktemp("hosts")) as (_podman_hosts, (started,)):
        started.ssh(f"mkdir /tmp/empty && cd /tmp/empty && sudo systemd-run --same-dir python3 -c {shlex.quote(SERVER)}")
        wait_until(lambda: started.ssh(f"true </dev/tcp/127.0.0.1/{PORT}", check=False).returncode == 0)
        yield started


@pytest.fixture
def home() -> Iterator[Path]:
    """A home directory with a short path, because the path of a socket has at most 103 characters."""
    with tempfile.TemporaryDirectory(prefix="home-") as folder:
        yield Path(folder)


def node(number: int, address: str, public_ip: str | None = None) -> Node:
    group = "workers" if number > 1 else "master"
    return Node(f"c-{number}", f"c-{number}", group, number, f"i-{number:017x}", "c5.large", "us-east-1a", address, public_ip)


def connect(command: str) -> str:
    """Connect to the web server with a proxy command, and return the server's first line, or the errors."""
    done = subprocess.run(["sh", "-c", f"exec {command}"], input=REQUEST, capture_output=True, timeout=120, check=False)
    return (done.stdout or done.stderr).decode().partition("\r\n")[0]


def test_the_master_has_openssh_default_limits(host: BareHost) -> None:
    settings = dict(line.split(" ", 1) for line in host.ssh("sudo sshd -T").stdout.splitlines())
    assert (settings["maxstartups"], settings["maxsessions"]) == ("10:30:100", "10")


@pytest.mark.parametrize("folder", ["ssh", "a " + "long name " * 20], ids=["default", "long-path"])
def test_many_connections_at_once(host: BareHost, home: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    directory = home / folder
    for each in (home / ".ssh", directory):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    # On a busy machine, the login may take longer than the few seconds that Ansible allows.
    assert "-lt 30 " in ssh_connections.JUMP_SCRIPT
    monkeypatch.setattr(ssh_connections, "JUMP_SCRIPT", ssh_connections.JUMP_SCRIPT.replace("-lt 30 ", "-lt 300 "))
    master = node(1, host.private_ip, host.private_ip)
    key = " ".join(host.ssh("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[:2])
    (directory / "known_hosts").write_text(f"{master.instance_id} {key}\n")
    connections = SshConnections("jump", host.user, str(host.key_file), str(directory), master, "us-east-1")
    arguments = shlex.split(connections.variables(node(2, "127.0.0.1"))["ansible_ssh_args"])
    (command,) = (each.removeprefix("ProxyCommand=") for each in arguments if each.startswith("ProxyCommand="))
    command = command.replace("%h:%p", f"127.0.0.1:{PORT}")
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        assert list(pool.map(connect, [command] * CONNECTIONS)) == [ANSWER] * CONNECTIONS
    # The socket of a connection that has ended unexpectedly does not prevent the next connection.
    (socket,) = [path for parent in (home / ".ssh", directory) for path in parent.glob("jump-*")]
    shared = subprocess.run(["ssh", "-O", "check", "-S", str(socket), "x"], capture_output=True, text=True, check=True).stderr
    subprocess.run(["kill", "-9", shared.partition("pid=")[2].partition(")")[0]], check=True)
    wait_until(lambda: subprocess.run(["ssh", "-O", "check", "-S", str(socket), "x"], capture_output=True, check=False).returncode)
    assert connect(command) == ANSWER
    subprocess.run(["ssh", "-O", "exit", "-S", str(socket), "x"], capture_output=True, check=True)
