"""Compares the time that this collection and tasks of amazon.aws and community.aws take to provision the same resources.

For both collections, complete `ansible-playbook` processes run against one AWS API on this machine, without hosts. Each round uses a new
cluster: the first run creates the cluster, and the second run has nothing to change. This collection also reads and refreshes its
inventory, as it does in normal use. The benchmark prints the medians, and the speedups after the duration of a playbook without tasks,
which both collections need in any case, is subtracted from both. The benchmark fails if the two collections do not create the same number
of resources of each kind, or if the speedups miss the goals.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from census import census
from local_cloud.testing import LocalCloud

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = {"amazon.aws": ROOT / "tests" / "benchmarks" / "amazon_aws.yml", "ours": ROOT / "playbooks" / "provision.yml"}
# Required speedup of this collection, by run.
GOALS = {"first": 20.0, "unchanged": 10.0}
EMPTY = ("ansible-playbook", "empty")

DEFINITION = {
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    "deeplearning_region": "us-east-1",
    "deeplearning_zones": ["us-east-1a"],
    "deeplearning_instance_type": "c5.large",
    "deeplearning_worker_count": 2,
    "deeplearning_key_name": "benchmark",
    "deeplearning_ssh_cidrs": ["192.0.2.0/24"],
    "deeplearning_image_parameter": "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04/latest/ami-id",
}
# AWS's delays are the same for both collections and would hide the difference between them.
NO_DELAYS = {"nat_gateway": 0, "file_system": 0, "mount_target": 0}


def inventory(who: str, cluster: str, folder: Path) -> str:
    """Return the value of the option `-i`: an inventory plugin file for this collection, or localhost for amazon.aws."""
    if who != "ours":
        return "localhost,"
    file = folder / f"{cluster}.nodes.yml"
    file.write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": cluster, "region": DEFINITION["deeplearning_region"]}))
    return str(file)


def play(playbook: Path, hosts: str, cluster: str, environment: Mapping[str, str]) -> tuple[float, int]:
    """Run a playbook; return its duration in seconds and the number of tasks that reported a change."""
    definition = json.dumps({**DEFINITION, "deeplearning_cluster": cluster})
    command = ["ansible-playbook", "-i", hosts, str(playbook), "-e", definition]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{playbook.name} failed:\n{done.stdout}{done.stderr}")
    return seconds, sum(map(int, re.findall(r"changed=(\d+)", done.stdout)))


def measure(cloud: LocalCloud, folder: Path, rounds: int) -> dict[tuple[str, str], list[float]]:
    """Return the durations in seconds by collection and kind of run. The order of the two collections alternates between rounds."""
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in itertools.product(PLAYBOOKS, GOALS)}
    environment = {**cloud.environment, "ANSIBLE_FORCE_COLOR": "false", "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}
    for number in range(1, rounds + 1):
        counts: dict[str, dict[str, int]] = {}
        empty = folder / "empty.yml"
        empty.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": []}]))
        seconds.setdefault(EMPTY, []).append(play(empty, "localhost,", "", environment)[0])
        for who in sorted(PLAYBOOKS, reverse=number % 2 == 0):
            cluster = f"{'ours' if who == 'ours' else 'theirs'}-{number}"
            hosts = inventory(who, cluster, folder)
            for run in GOALS:
                taken, changed = play(PLAYBOOKS[who], hosts, cluster, environment)
                print(f"round {number}  {who:11} {run:10} {taken:6.2f} s  changed={changed}", flush=True)
                if (run == "first") != bool(changed):
                    sys.exit(f"{who}: changed={changed} is not the expected result of this run")
                seconds[who, run].append(taken)
            counts[who] = census(cloud, cluster)
        if number == 1:
            print("each created", ", ".join(f"{count} {kind}" for kind, count in counts["ours"].items()), flush=True)
        if counts["ours"] != counts["amazon.aws"]:
            sys.exit(f"the two collections did not create the same resources: {counts}")
    return seconds


def report(seconds: Mapping[tuple[str, str], list[float]]) -> bool:
    """Print the table of medians; return whether the goals are met."""
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    empty = medians[EMPTY]
    print(f"\na playbook without tasks: {empty:.2f} s\n\n{'median seconds':16}{'amazon.aws':>12}{'ours':>8}{'times faster':>16}{'goal':>7}")
    met = True
    for run, goal in GOALS.items():
        theirs, ours = medians["amazon.aws", run], medians["ours", run]
        print(f"{run:16}{theirs:12.2f}{ours:8.2f}{(theirs - empty) / (ours - empty):16.1f}{goal:7.1f}")
        met = met and (theirs - empty) / (ours - empty) >= goal
    return met


def main() -> int:
    """Return 0 if the goals are met, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: %(default)s)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder, LocalCloud(Path(folder) / "home", hosts=False) as cloud:
        cloud.client("ec2").create_key_pair(KeyName=DEFINITION["deeplearning_key_name"])
        cloud.control.set_delays(**NO_DELAYS)
        print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
        return 0 if report(measure(cloud, Path(folder), rounds)) else 1


if __name__ == "__main__":
    sys.exit(main())
