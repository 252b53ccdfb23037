"""A process that has imported the server, and that forks into servers. The import takes most of the time in which a server starts.

Tests start many local clouds, so they use this process (see testing.py). Each line of standard input is a `Request` as a JSON object. For
each line, the process writes the process ID of the new server to standard output.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from typing import TypedDict

from moto.core.utils import get_service_model
from moto.moto_api._internal import mock_random

from . import server

# Services that almost every test uses. Their models take long to load.
SERVICES = ("autoscaling", "ec2", "efs", "iam", "ssm")


class Request(TypedDict):
    """The home folder of a local cloud and the path of its log, and the environment variables, the umask and the working directory of its
    server.
    """

    home: str
    log: str
    environment: dict[str, str]
    umask: int
    directory: str


def main() -> None:
    """Start a server for each line of standard input, until its end. Servers continue to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # servers that have ended do not stay as zombies
    for service in SERVICES:
        get_service_model(service)
    gc.freeze()  # servers share the memory of what was imported
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            become_server(json.loads(line))
            return
        print(pid, flush=True)


def become_server(request: Request) -> None:
    """Run a server in this process, as a new process would run it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.umask(request["umask"])
    os.chdir(request["directory"])
    own = {name: value for name, value in os.environ.items() if name.startswith("MOTO_")}  # set by the import
    os.environ.clear()
    os.environ.update({**request["environment"], **own})
    mock_random.seed()  # otherwise, all servers would create the same IDs and access keys
    write = os.O_WRONLY | os.O_APPEND
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, request["log"], write), (2, request["log"], write)):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = [sys.argv[0], request["home"]]
    server.main()
    os._exit(0)  # to delete all objects one by one would take a second


if __name__ == "__main__":
    main()
