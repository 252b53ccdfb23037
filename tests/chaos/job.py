"""A job of the chaos suite on the hosts of the local cloud, and what the suite can observe about the job without using the collection."""

from __future__ import annotations

import contextlib
import json
import random
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local_cloud.testing import wait_until

from .catalogue import RANKS
from .judge import Strike

WORKLOAD = Path(__file__).with_name("workload.py")
PYTHON = "/usr/bin/python3"

# Seconds after which a job that has not ended counts as a job that never ends.
PATIENCE = 480.0

# Options of all jobs, and the options that make the hosts detect faults early. Three of the four hosts are sufficient. The number of
# restarts is the default of the role, because the cluster's own default in tests is 0.
OPTIONS = {"launcher": "command", "python": PYTHON, "report": False, "restarts": 3}
EARLY = {"min_hosts": 3, "heartbeat_timeout": 15, "hang_minimum": 0, "hang_timeout": 30}


class Job:
    """A job with one rank on each of the first `ranks` hosts.

    `strikes` contains what the injector did, with times according to the clock of this machine.
    """

    def __init__(self, cluster, name, seed, ranks=RANKS):
        self.cluster, self.name, self.random = cluster, name, random.Random(seed)
        self.directory = f"/efs/jobs/{name}"
        self.attempt, self.strikes = 1, []
        self.target = self.random.randrange(1, ranks)
        self.at_step = self.random.randrange(22, 29)
        self.undo = contextlib.ExitStack()
        self.gone = set()

    @property
    def host(self):
        """Return the host of the rank at which the fault is aimed."""
        return self.cluster.hosts[self.target]

    def hosts(self):
        """Return the hosts that are running."""
        return [host for host in self.cluster.hosts if host.name not in self.gone]

    def start(self, options, watched=False):
        """Start the job. If the job is watched, `controller` is the play that waits for the end of the job."""
        found = {**OPTIONS, **({} if options.pop("role_defaults", False) else EARLY), **options}
        if not watched:
            self.cluster.start(self.name, str(WORKLOAD), **found)
            return
        command = ["ansible-playbook", "-i", str(self.cluster.inventory), self.cluster.playbook(self.name, str(WORKLOAD), **found)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        self.controller = subprocess.Popen(command, cwd=self.cluster.folder, start_new_session=True, **quiet)
        self.undo.callback(self.controller.wait)
        self.undo.callback(self.controller.kill)

    def read(self, path):
        """Return the contents of a file in the job's directory, or an empty string."""
        return self.hosts()[0].ssh(f"cat {self.directory}/{path} 2>/dev/null", check=False).stdout

    def curve(self):
        """Return the entries that rank 0 has written about its steps."""
        return [json.loads(line) for line in self.read("curve.jsonl").splitlines()]

    def wait_for_step(self, step=None):
        """Wait until the job has completed the step at which the fault begins."""
        wanted = self.at_step if step is None else step
        wait_until(lambda: any(entry.get("step", 0) >= wanted for entry in self.curve()[-1:]), PATIENCE, 0.2)

    def wait_for_attempt(self, attempt):
        """Wait until the ranks of an attempt have started."""
        wait_until(lambda: any(entry["attempt"] >= attempt for entry in self.curve()[-1:]), PATIENCE, 0.2)
        self.attempt = attempt

    def wait_for_verdict(self, attempt=1):
        """Wait until the hosts have detected that an attempt is over."""
        wait_until(lambda: self.verdicts().get(attempt), PATIENCE, 0.2)

    def verdicts(self):
        """Return the time at which the verdict of each attempt was written, according to the clock of the file system."""
        return self.times("over")

    def decisions(self):
        """Return the time at which the decision about what follows each attempt was written, according to the clock of the file system."""
        return self.times("next")

    def times(self, name):
        """Return the modification time of a file in the records of each attempt."""
        found = self.hosts()[0].ssh(f"stat -c '%n %.Y' {self.directory}/status/{name} {self.directory}/status/*/{name}", check=False).stdout
        lines = [re.search(rf"/status/(?:attempt(\d+)/)?{name} ([\d.]+)", line) for line in found.splitlines()]
        return {int(line[1] or 1): float(line[2]) for line in lines if line}

    def struck(self, number=None, at=None):
        """Record that a fault has begun at a host: by default now, and at the target."""
        self.strikes.append(Strike(self.attempt, self.target if number is None else number, time.time() if at is None else at))

    def strike(self, host, command):
        """Run a command on a host as root, and record the time at which the command began."""
        done = host.ssh(f"date +%s.%N; sudo sh -c '{command}'", check=False)
        if done.returncode:
            raise OSError(f"{command}: exit status {done.returncode}: {done.stderr}")
        self.struck(self.cluster.hosts.index(host), float(done.stdout.split()[0]))

    def signal(self, number, name, part="rank", must_run=True):
        """Send a signal to a rank, its launcher or its supervisor. Raises OSError if `must_run` is true and the process has ended."""
        pattern = {
            "rank": f"/jobs/{self.name}/[c]ode/workload.py rank",
            "launcher": f"/jobs/{self.name}/[c]ode/workload.py$",
            "supervisor": f" [r]un /run/deeplearning/jobs/{self.name}-rank",
        }[part]
        self.strike(self.cluster.hosts[number], f'pkill -{name} -f "{pattern}"' + ("" if must_run else " || true"))

    def pid_of_rank(self, host):
        """Return the process ID of the rank on a host."""
        return int(host.ssh(f"pgrep -f '/jobs/{self.name}/[c]ode/workload.py rank'").stdout)

    def resume_supervisor(self, number):
        """Resume a suspended supervisor."""
        self.cluster.hosts[number].ssh(f"sudo pkill -CONT -f ' [r]un /run/deeplearning/jobs/{self.name}-rank'", check=False)

    def units(self):
        """Return the units of the job that have not ended, on all hosts that are running."""
        command = f"systemctl list-units --no-legend --plain --state=active,activating,deactivating 'deeplearning-{self.name}-*.service'"

        def listed(host):
            return [f"{host.name} {line}" for line in host.ssh(command, check=False).stdout.splitlines()]

        with ThreadPoolExecutor(len(self.cluster.hosts)) as pool:
            return [line for lines in pool.map(listed, self.hosts()) for line in lines]

    def wait_for_end(self):
        """Wait until all units of the job have ended. Return False after a timeout."""
        try:
            wait_until(lambda: not self.units(), PATIENCE, 1.0)
        except TimeoutError:
            return False
        return True

    def survivors(self):
        """Return the job's processes that are running on hosts. The processes are identified by their environment or command line."""
        command = (
            f"sudo grep -lzx DEEPLEARNING_JOB={self.name} /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 | xargs -r ps -o pid=,args= -p; "
            f"pgrep -fa '[/]jobs/{self.name}[-/]'"
        )
        return [f"{host.name}: {line}" for host in self.hosts() for line in host.ssh(command, check=False).stdout.splitlines()]

    def wait_without_survivors(self, patience=10.0):
        """Return the processes of the job that are still running after its units have had some seconds to end."""
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not self.survivors(), patience, 0.5)
        return self.survivors()

    def result(self):
        """Return the parameters after the last step, or None."""
        text = self.read("result.json")
        return json.loads(text)["parameters"] if text else None

    def lifetime(self):
        """Return the time at which the job was prepared, and the seconds until its last verdict or decision, according to the clock of the
        file system.
        """
        status = f"{self.directory}/status"
        places = f"{self.directory}/job.json {status}/over {status}/next {status}/*/over {status}/*/next"
        found = self.hosts()[0].ssh(f"stat -c %.Y {places}", check=False).stdout.split()
        created = float(found[0])
        return created, max(map(float, found[1:]), default=0.0) - created

    def remove(self):
        """Kill all units and processes of the job that are still running. Delete the records of failures, which would exclude hosts."""
        self.hosts()[0].ssh("sudo sh -c 'rm -f /efs/jobs/.host-failures/*'", check=False)
        if not self.survivors():
            return
        for host in self.hosts():
            host.ssh(
                f"sudo systemctl kill --signal=KILL 'deeplearning-{self.name}-*.service'; sudo pkill -KILL -f /jobs/{self.name}/",
                check=False,
            )

    def info(self):
        """Return what the collection reports about the job."""
        worker = 1 + self.cluster.hosts.index(self.hosts()[0])
        return self.cluster.info(self.name, goodput="always", worker=worker)
