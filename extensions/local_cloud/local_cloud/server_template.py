"""A process that has imported the server, and that forks into servers. The import takes most of the time in which a server starts.

Tests start many local clouds, so they use this process (see testing.py). Each line of standard input is a JSON object with the home folder
of a local cloud, the path of its log, and the environment variables of its server.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from . import server


def main() -> None:
    """Start a server for each line of standard input, until its end. Servers continue to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # servers that have ended do not stay as zombies
    for line in iter(sys.stdin.readline, ""):
        if os.fork() == 0:
            become_server(**json.loads(line))
            return


def become_server(home: str, log: str, environment: dict[str, str]) -> None:
    """Run a server in this process, with the same environment as a new process would have."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_APPEND), (2, log, os.O_WRONLY | os.O_APPEND)):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = [sys.argv[0], home]
    server.main()


if __name__ == "__main__":
    main()
