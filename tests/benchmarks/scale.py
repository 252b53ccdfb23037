"""Measures how the inventory, provisioning and a task on each host grow with the number of nodes.

The inventory (`ansible-inventory --list`) is compared with a script that reads the same responses with boto3, and with a static inventory
file of the same hosts and variables. Processor time is the time beyond that for a cluster without nodes. A task that runs `true` for each
host, with a local connection, is compared with the same task and the static inventory file. The inventory's responses are simulated
(`simulated_nodes`). Provisioning runs on a local cloud without hosts. The benchmark fails if the inventory misses one of the goals.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from compare_provisioning import DEFINITION, NO_DELAYS, ROOT, inventory, play
from local_cloud.testing import LocalCloud
from simulated_nodes import recorded, simulated_nodes

# How many times as much processor time as boto3 the inventory may need, and its peak memory in MB with 1000 nodes.
GOAL, GOAL_MEMORY = 1.5, 300
SIZES = (10, 100, 1000)
# Numbers of nodes for which only the inventory is measured.
LARGE = (10_000,)
CLUSTER = "scale"
BOTO3 = """
import boto3
for service, operation in (("ec2", "describe_instances"), ("autoscaling", "describe_auto_scaling_groups")):
    pages = list(boto3.client(service).get_paginator(operation).paginate())
"""
PLAY = [{"hosts": "trainers", "gather_facts": False, "tasks": [{"ansible.builtin.raw": "true"}]}]
STATIC = {"ANSIBLE_INVENTORY_ENABLED": "ansible.builtin.yaml", "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}


class Cost(NamedTuple):
    """The elapsed time and the processor time of a command in seconds, its peak memory in MB, and the length of its output in bytes."""

    seconds: float
    processor: float
    memory: float
    size: int


def run(command: Sequence[str], environment: Mapping[str, str], output: Path) -> Cost:
    """Run a command, write its output to a file, and return its cost."""
    began = time.perf_counter()
    with output.open("wb") as stream, subprocess.Popen(command, cwd=ROOT, env=environment, stdout=stream) as process:
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{output.read_text()[-2000:]}")
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output.stat().st_size)


class Bench:
    """Measures commands in a folder with simulated responses. Of several rounds, the one with the least processor time counts."""

    def __init__(self, folder: Path, answers: Mapping[str, str], rounds: int) -> None:
        self.folder, self.answers, self.rounds = folder, answers, rounds
        self.nodes = inventory("ours", CLUSTER, folder)
        self.static, self.play = folder / "static.yml", folder / "play.yml"
        self.play.write_text(json.dumps(PLAY))

    def measure(self, count: int, *, tasks: bool = False) -> dict[str, Cost]:
        """Return the costs of all commands for a cluster of `count` nodes, by name."""
        with simulated_nodes(self.answers, count) as (url, _requests):
            keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
            environment = {**os.environ, **keys, "AWS_ENDPOINT_URL": url}
            found = {
                "boto3": self._best([sys.executable, "-c", BOTO3], environment),
                "inventory": self._best(["ansible-inventory", "-i", self.nodes, "--list"], environment),
            }
            listed = json.loads((self.folder / "output").read_text(), object_hook=lambda item: item.get("__ansible_unsafe", item))
            hosts = listed["_meta"]["hostvars"]
            groups = {name: {"hosts": dict.fromkeys(listed.get(name, {}).get("hosts", []))} for name in ("master", "workers")}
            self.static.write_text(json.dumps({"all": {"hosts": hosts, "children": {"trainers": {"children": groups}}}}))
            command = ["ansible-inventory", "-i", str(self.static), "--list"]
            found["static inventory"] = self._best(command, {**environment, **STATIC})
            if tasks:
                task = ["ansible-playbook", str(self.play), "-e", "ansible_connection=local", "-i"]
                found["task"] = run([*task, self.nodes], environment, self.folder / "output")
                found["task, static"] = run([*task, str(self.static)], {**environment, **STATIC}, self.folder / "output")
        return found

    def _best(self, command: Sequence[str], environment: Mapping[str, str]) -> Cost:
        costs = [run(command, environment, self.folder / "output") for _round in range(self.rounds)]
        return min(costs, key=lambda cost: cost.processor)


def provision(cloud: LocalCloud, folder: Path, count: int) -> float:
    """Provision a cluster of `count` nodes, and return how many seconds it took."""
    DEFINITION["deeplearning_worker_count"] = count - 1
    cluster = CLUSTER if count == min(SIZES) else f"{CLUSTER}-{count}"
    environment = {**cloud.environment, "ANSIBLE_FORCE_COLOR": "false", "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}
    return play(ROOT / "playbooks" / "provision.yml", inventory("ours", cluster, folder), cluster, environment)[0]


def is_met(count: int, costs: Mapping[str, Cost], empty: Mapping[str, Cost]) -> bool:
    """Print the costs for `count` nodes, and return whether the goals are met. Small clusters have no goals."""
    for name, cost in costs.items():
        more = f"{cost.processor - empty[name].processor:8.2f} s more than without nodes" if name in empty else ""
        print(f"{count:6} nodes  {name:17}{cost.seconds:8.2f} s{cost.memory:7.0f} MB{cost.size:10} bytes{more}", flush=True)
    own, other = (costs[name].processor - empty[name].processor for name in ("inventory", "boto3"))
    print(f"{count:6} nodes  processor time of the inventory / boto3: {own / other:.2f}", flush=True)
    return count < max(SIZES) or (own <= GOAL * other and (count > max(SIZES) or costs["inventory"].memory < GOAL_MEMORY))


def main() -> int:
    """Return 0 if the goals are met, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: %(default)s)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name, LocalCloud(Path(name) / "home", hosts=False) as cloud:
        folder = Path(name)
        cloud.client("ec2").create_key_pair(KeyName=DEFINITION["deeplearning_key_name"])
        cloud.control.set_delays(**NO_DELAYS)
        print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
        for count in SIZES:
            print(f"{count:6} nodes  provisioning     {provision(cloud, folder, count):8.2f} s", flush=True)
        bench = Bench(folder, recorded(cloud, CLUSTER), rounds)
        empty = bench.measure(0)
        met = [is_met(count, bench.measure(count, tasks=count in SIZES), empty) for count in (*SIZES, *LARGE)]
        return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
