"""Measures how long the health checks of healthy hosts take.

All hosts run the module node_health at the same time, in one round trip. Stand-ins for nvidia-smi, journalctl and fi_info print the output
of a host with eight GPUs and four adapters at once, so the time of the real programs is not included. The benchmark subtracts the time of
an empty module on the same hosts, which is the time that Ansible and SSH need. It fails if the median of the difference exceeds the goal.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# This import sets the environment of everything that tests start.
import conftest  # noqa: F401  # pylint: disable=unused-import
from chaos import checks, runner
from comparison import report

GOAL = 2.0
"""Seconds that the checks may take."""


def measure(cluster: runner.ChaosCluster) -> tuple[float, float]:
    """Return the seconds that the checks and an empty module take on all hosts."""
    began = time.monotonic()
    findings = [finding for found in checks.check(cluster).values() for finding in found]
    checked = time.monotonic()
    if findings:
        sys.exit(f"the hosts are not healthy: {findings}")
    checks.run(cluster, "ansible.builtin.ping")
    return checked - began, time.monotonic() - checked


def main() -> int:
    """Return 0 if the goal is met, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="number of checks of all hosts (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder, runner.chaos_cluster(Path(folder)) as cluster:
        checks.prepare(cluster)
        print(f"{os.cpu_count()} cores, {len(cluster.hosts)} hosts, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
        measure(cluster)  # the first run on new hosts takes longer
        times = []
        for number in range(1, options.rounds + 1):
            times.append(measure(cluster))
            print(f"round {number}  checks {times[-1][0]:.2f} s  empty module {times[-1][1]:.2f} s", flush=True)
    print(f"smallest difference: {min(ours - empty for ours, empty in times):.2f} s")
    return 0 if report(times, "checks", "empty module", GOAL, "all hosts") else 1


if __name__ == "__main__":
    sys.exit(main())
