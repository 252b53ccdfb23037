"""Runs the program of a supervisor with short intervals, and with files and a port of this machine in place of those of its host.

The arguments are the program file, the beginning of the names of the host's files, the port of the instance metadata service, and the
arguments of the program. The program file contains all of what it imports.
"""

from __future__ import annotations

import os
import sys

program, host, port, *arguments = sys.argv[1:]
sys.path.insert(0, program)

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import (  # noqa: E402
    between_attempts,
    host_health,
    process_watch,
    supervisor,
    termination_notices,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions, hangs, periodic_findings  # noqa: E402

process_watch.POLL_INTERVAL = process_watch.HEARTBEAT_INTERVAL = between_attempts.INTERVAL = termination_notices.INTERVAL = 0.2
hangs.MARGIN, host_health.ABSENCE = 1, 0.0
termination_notices.ADDRESS, termination_notices.PORT = "127.0.0.1", int(port)
folder, name = os.path.split(host)
os.makedirs(folder, exist_ok=True)
termination_notices.LEASE = os.path.join(folder, "lease")
exclusions.PATH, exclusions.OWNER, periodic_findings.PATH = f"{host}.json", os.geteuid(), f"{host}.findings"
os.chdir(folder)  # the path of a socket has at most 107 characters
host_health.SOCKET = name
sys.argv[0] = program
sys.exit(supervisor.main(arguments))
