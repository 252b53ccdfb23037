"""Measures what the start of a job costs the controller on a converged cluster of many hosts.

`playbooks/train.yml` runs with the real ssh, Ansible and API of the local cloud. `simulated_hosts` answers for all hosts, as three real
hosts have answered before, so the processor time is that of the controller, while the elapsed time contains no work of hosts. The run is
compared with an empty playbook, with `ssh HOST true` for all hosts, and with a playbook that has as many tasks on each worker, each of
which runs `true`. The benchmark fails if a worker has more tasks than the goal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from compare_start import Bench
from local_cloud.testing import LocalCloud, unused_range
from simulated_hosts import Answers, Cluster, SimulatedHosts, described, recorded

# Maximum number of tasks on each worker, skipped ones included.
GOAL = 8
# How many processes of ssh run at the same time.
FORKS = 25
JOB = "recorded"
Recording = tuple[dict[tuple[str, str], list[str]], Cluster]


def cluster_of(bench: Bench) -> Cluster:
    return described(bench.run("ansible-inventory", "-i", str(bench.inventory), "--list"))


def record(bench: Bench) -> Recording:
    """Return what the hosts of a real, converged cluster answer when a job starts, and the cluster."""
    folder = bench.folder / "records"
    folder.mkdir()
    bench.environment |= {"ANSIBLE_SSH_EXECUTABLE": str(Path(__file__).with_name("recording_ssh.sh")), "SSH_RECORDS": str(folder)}
    bench.train(JOB)
    return recorded(folder), cluster_of(bench)


@contextmanager
def simulated(bench: Bench, recording: Recording) -> Iterator[SimulatedHosts]:
    """Provision a cluster in a local cloud without hosts, and play its hosts for a controller that has configured them."""
    bench.run(*bench.playbook("provision.yml"))
    answers = Answers(*recording, cluster_of(bench))
    bench.ssh_directory.mkdir(parents=True)
    (bench.ssh_directory / "known_hosts").write_text(answers.known_hosts)
    with SimulatedHosts(answers) as hosts:
        yield hosts


class Cost(NamedTuple):
    """What a run costs: the controller's processor time and the elapsed time until all hosts have been told to start and until the end, in
    seconds; connections; kB that a worker gets; requests to AWS."""

    processor: float
    started: float
    elapsed: float
    connections: float
    kilobytes: float
    requests: float


def cost(bench: Bench, hosts: SimulatedHosts, command: list[str]) -> Cost:
    hosts.reset()
    bench.cloud.control.forget_calls()
    began = time.time()
    processor = bench.processor_time(*command)
    elapsed, traffic = time.time() - began, hosts.traffic
    started = max((when for (_host, subject), when in traffic.times.items() if subject == "training_job"), default=began) - began
    size = statistics.median(traffic.received[node.name] for node in hosts.answers.cluster.nodes[1:]) / 1000
    return Cost(processor, started, elapsed, traffic.connections, size, len(bench.cloud.control.calls()))


def measure(bench: Bench, hosts: SimulatedHosts, rounds: int) -> int:
    """Print what the runs cost, and return the maximum number of tasks on a worker."""
    workers = [node.name for node in hosts.answers.cluster.nodes[1:]]
    bench.run(*bench.playbook("train.yml", JOB))  # also keeps the modules that Ansible builds
    tasks = max((bench.tasks()[name] for name in workers), key=len)
    print(f"{len(workers) + 1} hosts, {len(tasks)} tasks on each worker: {', '.join(tasks)}")
    raw = bench.folder / "raw.yml"
    raw.write_text(json.dumps([{"hosts": "workers", "gather_facts": False, "tasks": [{"ansible.builtin.raw": "true"}] * len(tasks)}]))
    commands = {
        "empty playbook": bench.empty(),
        "train.yml": bench.playbook("train.yml", JOB),
        f"{len(tasks)} raw tasks": ["ansible-playbook", "-i", str(bench.inventory), str(raw)],
        "ssh HOST true": ["xargs", "-P", str(FORKS), "-I", "HOST", "-a", str(bench.folder / "workers"), *bench.on("HOST", "true")],
    }
    (bench.folder / "workers").write_text("".join(f"{name}\n" for name in workers))
    titles = ("processor s", "started s", "elapsed s", "connections", "kB to a worker", "AWS requests")
    print(f"{'medians':16}" + "".join(f"{title:>16}" for title in titles))
    for name, command in commands.items():
        found = Cost(*map(statistics.median, zip(*(cost(bench, hosts, command) for _round in range(rounds)))))
        print(f"{name:16}" + "".join(f"{value:16.{digits}f}" for value, digits in zip(found, (2, 2, 2, 0, 1, 0))), flush=True)
    return len(tasks)


def main() -> int:
    """Return 0 if the goal is met, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[100], help="numbers of simulated hosts (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name, unused_range() as network:
        print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
        with LocalCloud(Path(name) / "home") as cloud:
            bench = Bench(cloud, network, Path(name))
            bench.train("converge")
            recording = record(bench)
        most = 0
        for count in options.hosts:
            folder = Path(name) / str(count)
            folder.mkdir()
            with LocalCloud(folder / "home", hosts=False) as cloud:
                bench = Bench(cloud, network, folder, count)
                with simulated(bench, recording) as hosts:
                    most = max(most, measure(bench, hosts, options.rounds))
        return 0 if most <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
