# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs commands in the job's systemd unit on another host, for frameworks such as MPI that start their own daemons.

A job's user has no SSH key. A process that ssh starts belongs to a login session, so it is not subject to the job's limits and does not end
when the job ends. This module replaces ssh: a process of the job waits on the other host (``serve``), and ``rsh HOST COMMAND`` sends the
command to that process. Each side proves that it has the job's key, which no other job has. Like all MPI traffic, the output is not
encrypted.
"""

from __future__ import annotations

import contextlib
import glob
import hmac
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection

from ...._job.documents import ProcessSpec

# Seconds to wait for the other host's unit. All units are started at the same time.
PATIENCE = 60.0
# Seconds that each side has to prove that it has the key.
HANDSHAKE = 10
# Maximum number of connections. Any program that can reach the port can open connections, and each connection uses a thread.
MOST_CONNECTIONS = 100
MOST = 1 << 20
NONCE = 32
# TCP keep-alive settings (seconds, number of probes), which detect a host that is down.
KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))

# The possible first bytes of a server's message. The first byte indicates what the message contains.
OUTPUT, ERRORS, STATUS = b"o", b"e", b"s"


def main(action: str, spec: ProcessSpec, words: list[str]) -> int:
    return serve(spec) if action == "serve" else rsh(spec, words)


def serve(spec: ProcessSpec) -> int:
    """Run the commands that rsh() sends. On SIGTERM, terminate the processes that these commands started, and then this process."""
    signal.signal(signal.SIGTERM, lambda *_: _end())
    own = spec["daemons"][spec["host"]]
    with socket.create_server((own["address"], own["port"])) as listener:
        while True:
            connection = listener.accept()[0]
            if threading.active_count() > MOST_CONNECTIONS:
                connection.close()
            else:
                threading.Thread(target=_run, args=(connection, spec["key"]), daemon=True).start()


def _end() -> None:
    """Terminate all other processes of the unit except the supervisor, and then this process.

    The supervisor kills processes that take too long to end.
    """
    for process in _others():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    while _others():
        time.sleep(0.1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _others() -> list[int]:
    """Return the IDs of this unit's processes except the supervisor and this process.

    Uses the cgroup to find the processes, because the unit includes daemons whose parents have exited.
    """
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        own = file.read()
    found = []
    for path in glob.glob("/proc/[0-9]*/cgroup"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path, encoding="utf-8") as file:
            if file.read() == own:
                found.append(int(path.split("/")[2]))
    return [process for process in found if process not in (os.getpid(), os.getppid())]


def _run(accepted: socket.socket, key: str) -> None:
    """Run the command received over a connection, if the sender has the job's key."""
    with contextlib.suppress(OSError, EOFError), _connection(accepted, HANDSHAKE) as connection:
        theirs, ours = connection.recv_bytes(NONCE), os.urandom(NONCE)
        if len(theirs) != NONCE:
            return
        connection.send_bytes(ours + _proof(key, b"serve", theirs + ours))
        request = connection.recv_bytes(MOST)
        proof, command = request[:NONCE], request[NONCE:]
        if not hmac.compare_digest(proof, _proof(key, b"start", theirs + ours + command)):
            return
        words = ["/bin/sh", "-c", os.fsdecode(command)]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            _pass_on(child, connection)


def _pass_on(child: subprocess.Popen[bytes], connection: Connection) -> None:
    """Send the command's output and exit status. Do not wait for daemons that keep the output open."""
    with selectors.DefaultSelector() as selector:
        for stream, kind in ((child.stdout, OUTPUT), (child.stderr, ERRORS)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, kind)
        while selector.get_map():
            ended = child.poll() is not None  # check first whether the command has ended, so that all its output is available afterwards
            ready = selector.select(0.1)
            for entry, _events in ready:
                data = os.read(entry.fd, 1 << 16)
                if data:
                    connection.send_bytes(entry.data + data)
                else:
                    selector.unregister(entry.fileobj)
            if ended and not ready:
                break
    status = child.wait()
    connection.send_bytes(STATUS + str(status if status >= 0 else 128 - status).encode())


def rsh(spec: ProcessSpec, words: list[str]) -> int:
    """Run a command on another host of the job, in the same way as ssh.

    `words` contains the host's name and the words of a shell command.
    """
    host, command = words[0], " ".join(words[1:])
    if host not in spec["daemons"]:
        sys.stderr.write(f"{host} is not a host of this job\n")
        return 1
    there = spec["daemons"][host]
    try:
        connected = _connect(there["address"], there["port"])
    except OSError as error:
        sys.stderr.write(f"{host} does not respond on port {there['port']}: {error}\n")
        return 1
    try:
        with _connection(connected, HANDSHAKE) as connection:
            return _ask(connection, spec["key"], os.fsencode(command))
    except (OSError, EOFError) as error:
        # For example, the unit on that host has ended, which also ended the command.
        sys.stderr.write(f"{host} closed the connection: {error}\n")
        return 1


def _connect(address: str, port: int) -> socket.socket:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((address, port), timeout=HANDSHAKE)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _ask(connection: Connection, key: str, command: bytes) -> int:
    """Send the command to the other end of a connection, print the output of the command, and return its exit status."""
    ours = os.urandom(NONCE)
    connection.send_bytes(ours)
    answer = connection.recv_bytes(2 * NONCE)
    theirs, proof = answer[:NONCE], answer[NONCE:]
    if not hmac.compare_digest(proof, _proof(key, b"serve", ours + theirs)):
        sys.stderr.write("another program is listening on this job's port on that host\n")
        return 1
    connection.send_bytes(_proof(key, b"start", ours + theirs + command) + command)
    _limit(connection, 0)
    while True:
        message = connection.recv_bytes()
        kind, data = message[:1], message[1:]
        if kind == STATUS:
            return int(data)
        stream = sys.stdout.buffer if kind == OUTPUT else sys.stderr.buffer
        stream.write(data)
        stream.flush()


def _proof(key: str, purpose: bytes, message: bytes) -> bytes:
    """Return a proof that this side has the key. `purpose` prevents one side from reusing the other side's proof."""
    return hmac.new(key.encode(), purpose + b"\0" + message, "sha256").digest()


def _connection(connected: socket.socket, seconds: int) -> Connection:
    """Return a connection that transfers whole messages. A read times out after `seconds`."""
    connected.settimeout(None)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE:
        connected.setsockopt(socket.IPPROTO_TCP, option, value)
    connection = Connection(connected.detach())
    _limit(connection, seconds)
    return connection


def _limit(connection: Connection, seconds: int) -> None:
    """Set the timeout for reads in seconds. The value 0 means no timeout."""
    with socket.socket(fileno=os.dup(connection.fileno())) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))
