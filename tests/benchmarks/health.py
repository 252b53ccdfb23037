"""Measures how long the health checks of healthy hosts take, and how much CPU time they need.

All hosts run the module node_health at the same time, in one round trip. Stand-ins for nvidia-smi, journalctl and fi_info print the output
of a host with eight GPUs and four adapters at once, so the time of the real programs is not included. The benchmark subtracts the time of
an empty module on the same hosts, which is the time that Ansible and SSH need. The hosts and the controller share the cores of this
machine, so the time depends on what else the machine does. The CPU time does not. On machines with idle cores, the checks take about as
long as their CPU time on one host and on the controller together. The benchmark fails if the median of the difference exceeds the goal.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

# This import sets the environment of everything that tests start.
import conftest  # noqa: F401  # pylint: disable=unused-import
from chaos import checks, runner
from comparison import report
from local_cloud.testing import BareHost

# Seconds that the checks may take.
GOAL = 2.0

# Prints the CPU time of all processes of a host, with cgroup v1 in nanoseconds, and with cgroup v2 in microseconds.
CPU_TIME = "cat /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null || sed -n 's/usage_usec \\(.*\\)/\\1000/p' /sys/fs/cgroup/cpu.stat"


class Cost(NamedTuple):
    """The seconds that a module takes on all hosts, and the CPU time in seconds that one host and the controller need."""

    seconds: float
    host: float
    controller: float


def measure(cluster: runner.ChaosCluster, module: str) -> Cost:
    """Run a module on all hosts, and return its cost."""
    before, began, own = cpu_time(cluster.hosts[0]), time.monotonic(), children_cpu_time()
    if module == "node_health":
        findings = [finding for found in checks.check(cluster).values() for finding in found]
        if findings:
            sys.exit(f"the hosts are not healthy: {findings}")
    else:
        checks.run(cluster, module)
    seconds, controller = time.monotonic() - began, children_cpu_time() - own
    return Cost(seconds, cpu_time(cluster.hosts[0]) - before, controller)


def cpu_time(host: BareHost) -> float:
    return int(host.ssh(CPU_TIME).stdout) / 1e9


def children_cpu_time() -> float:
    """Return the CPU time of the processes that this process has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Return 0 if the goal is met, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="number of checks of all hosts (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder, runner.chaos_cluster(Path(folder)) as cluster:
        checks.prepare(cluster)
        print(f"{os.cpu_count()} cores, {len(cluster.hosts)} hosts, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
        measure(cluster, "node_health")  # the first run on new hosts takes longer
        costs = []
        for number in range(1, options.rounds + 1):
            costs.append([measure(cluster, module) for module in ("node_health", "ansible.builtin.ping")])
            told = "  ".join(
                f"{name} {cost.seconds:.2f} s, CPU {cost.host:.2f} s and {cost.controller:.2f} s"
                for name, cost in zip(("checks", "empty module"), costs[-1], strict=True)
            )
            print(f"round {number}  {told}", flush=True)
    for place in ("host", "controller"):
        more = statistics.median(getattr(ours, place) - getattr(empty, place) for ours, empty in costs)
        print(f"CPU time that the checks need on the {'first host' if place == 'host' else place}: {more:.2f} s")
    times = [(ours.seconds, empty.seconds) for ours, empty in costs]
    return 0 if report(times, "checks", "empty module", GOAL, "all hosts") else 1


if __name__ == "__main__":
    sys.exit(main())
