# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Starts commands on another host inside that host's unit of the job, for frameworks that start their own daemons there (MPI).

What ssh starts belongs to the login session: the job's limits don't reach it, and neither does its end. So a process of the job waits
on that host (``serve``), on a socket that only the job's user can open, and what takes the place of ssh (``rsh HOST COMMAND``) asks it,
through ssh, to run the command (``start COMMAND``) with the caller's input, output and errors.
"""

from __future__ import annotations

import array
import contextlib
import glob
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Dict

from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import runtime_directory

Spec = Dict[str, Any]

# Seconds that the other host's unit may take to come up: all are started at the same time.
PATIENCE = 60.0
MOST = 1 << 20


def socket_path(path: str) -> str:
    """Return the socket that belongs to the spec at C(path)."""
    return os.path.join(os.path.dirname(path), "socket")


def main(action: str, spec: Spec, path: str, words: list[str]) -> int:
    """Do one of C(serve), C(start) and C(rsh); return its exit status."""
    if action == "serve":
        return serve(socket_path(path))
    if action == "start":
        return start(socket_path(path), words[0])
    return rsh(spec, words)


def serve(path: str) -> int:
    """Run what start() asks for, until this process is ended; pass SIGTERM on to all that has come of it, and outlive that."""
    signal.signal(signal.SIGTERM, lambda *_: _end())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(8)
        while True:
            connection = listener.accept()[0]
            threading.Thread(target=_run, args=(connection,), daemon=True).start()


def _end() -> None:
    """End everything in this unit, its supervisor excepted, and this process last. Who takes too long is for the supervisor to kill."""
    for process in _others():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    while _others():
        time.sleep(0.1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _others() -> list[int]:
    """Return the processes of this unit but for the supervisor and this one. Daemons are no longer anybody's children."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        own = file.read()
    found = []
    for path in glob.glob("/proc/[0-9]*/cgroup"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path, encoding="utf-8") as file:
            if file.read() == own:
                found.append(int(path.split("/")[2]))
    return [process for process in found if process not in (os.getpid(), os.getppid())]


def _run(connection: socket.socket) -> None:
    with connection:
        descriptors = array.array("i")
        message, ancillary = connection.recvmsg(MOST, socket.CMSG_SPACE(3 * descriptors.itemsize))[:2]
        for _level, _type, data in ancillary:
            descriptors.frombytes(data)
        try:
            stdin, stdout, stderr = descriptors
            child = subprocess.Popen(["/bin/sh", "-c", message.decode()], stdin=stdin, stdout=stdout, stderr=stderr)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        status = child.wait()
        try:
            connection.sendall(str(status if status >= 0 else 128 - status).encode())
        except OSError:
            pass  # who asked is gone; the command has done its work


def start(path: str, command: str) -> int:
    """Have the process at the socket run a shell command with this one's input, output and errors; return its exit status."""
    end = time.monotonic() + PATIENCE
    with socket.socket(socket.AF_UNIX) as connection:
        while True:
            try:
                connection.connect(path)
                break
            except OSError as error:
                if time.monotonic() > end:
                    sys.stderr.write(f"nobody answers at {path}: {error}\n")
                    return 1
                time.sleep(0.1)
        connection.sendmsg([command.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
        answer = connection.recv(16)
    # No answer: the unit has been ended, and the command with it.
    return int(answer) if answer else 1


def rsh(spec: Spec, words: list[str]) -> int:
    """Run a command on another host of the job, as ssh would: the host's name, then the words of the command, for a shell there."""
    host, command = words[0], " ".join(words[1:])
    if host not in spec["daemons"]:
        sys.stderr.write(f"{host} is not a host of this job\n")
        return 1
    program = os.path.join(runtime_directory(spec["job"], spec["daemons"][host]), "supervisor")
    return subprocess.call(["ssh", "-o", "BatchMode=yes", host, "--", f"sh {program} start {shlex.quote(command)}"])
