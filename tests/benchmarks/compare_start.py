"""Compares the time that a job takes to start on a converged cluster of real hosts with the time to start the same ranks by hand.

With this collection, a complete `ansible-playbook playbooks/train.yml` inspects the account, configures and checks the hosts, and copies
the code before it starts the job. By hand, one ssh command copies the script to the shared storage, and one ssh command per host runs the
command that the launcher plans. Both times are measured from the start of the first process to the time in the first line that the script
prints on rank 0. The benchmark prints each pair of times and the medians, the processor time of the controller for a whole run compared
with an empty playbook, the tasks of each host, and the number of requests to AWS. The benchmark fails if the median difference is more than
the goal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, Process, Program
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.registry import LAUNCHERS
from comparison import report
from local_cloud.testing import LocalCloud, unused_range

ROOT = Path(__file__).resolve().parents[2]
# Maximum number of seconds by which the playbook may be slower.
GOAL = 3.0

CLUSTER = "benchmark"
LAUNCHER = "torchrun"
PYTHON = "/opt/pytorch/bin/python"
NODES = {"plugin": "deeplearning.cluster.nodes", "cluster": CLUSTER, "region": "us-east-1"}
DEFINITION = {
    "deeplearning_instance_type": "c5.large",
    "deeplearning_image_parameter": "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04/latest/ami-id",
    "deeplearning_key_name": "local-cloud",
    "deeplearning_ssh_cidrs": ["127.0.0.0/8"],
    "training_job_launcher": LAUNCHER,
    "training_job_python": PYTHON,
}
SCRIPT = "import time\nprint(f'first line at {time.time()}', flush=True)\n"
FIRST_LINE = re.compile(r"first line at ([\d.]+)")


class Bench:
    """A cluster of `count` hosts in the local cloud, and two ways to start a script on it."""

    def __init__(self, cloud: LocalCloud, network: str, folder: Path, count: int = 3) -> None:
        self.cloud, self.folder = cloud, folder
        self.counts = folder / "tasks.json"
        self.environment = {
            **cloud.environment,
            "ANSIBLE_FORCE_COLOR": "false",
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parents[1] / "end_to_end" / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "started_tasks",
            "STARTED_TASKS": str(self.counts),
        }
        home = Path(self.environment["LOCAL_CLOUD_HOME"])
        self.ssh_directory = home / "ssh" / CLUSTER
        self.inventory = folder / "bench.nodes.yml"
        key_file = str(home / "id_ed25519")
        self.inventory.write_text(json.dumps({**NODES, "ssh_directory": str(self.ssh_directory), "private_key_file": key_file}))
        self.script = folder / "script.py"
        self.script.write_text(SCRIPT)
        self.definition = {
            **DEFINITION,
            "deeplearning_worker_count": count - 1,
            "deeplearning_network_cidr": network,
            "training_job_script": str(self.script),
            "training_job_report_directory": str(folder),
        }

    def run(self, *command: str) -> str:
        """Run a command and return its output."""
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def playbook(self, name: str, job: str = "") -> list[str]:
        """Return the command line that runs a playbook for the cluster, or for a job with this name."""
        definition = json.dumps({**self.definition, **({"training_job_name": job} if job else {})})
        return ["ansible-playbook", "-i", str(self.inventory), str(ROOT / "playbooks" / name), "-e", definition]

    def empty(self) -> list[str]:
        """Return the command line that runs an empty playbook."""
        file = self.folder / "empty.yml"
        file.write_text("- {hosts: localhost, connection: local, gather_facts: false, tasks: []}\n")
        return ["ansible-playbook", "-i", "localhost,", str(file)]

    def on(self, host: str, command: str) -> list[str]:
        """Return the command line that runs a shell command on a host and uses the ssh configuration that the collection wrote."""
        return ["ssh", "-F", str(self.ssh_directory / "config"), host, command]

    def train(self, job: str) -> float:
        """Train with the playbook; return the seconds until the script prints its first line."""
        started = time.time()
        self.run(*self.playbook("train.yml", job))
        return first_line(self.run(*self.on(f"{CLUSTER}-master", f"cat /efs/jobs/{job}/logs/rank0.log"))) - started

    def processor_time(self, *command: str) -> float:
        """Run a command and return the seconds of processor time that it and its child processes used."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.run(*command)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def costs(self) -> None:
        """Print the processor time of a job on converged hosts, compared with an empty playbook, and the numbers of tasks and requests."""
        self.cloud.control.forget_calls()
        nothing, job = self.processor_time(*self.empty()), self.processor_time(*self.playbook("train.yml", "costs"))
        print(f"processor time of the controller: {job:.2f} s, {job / nothing:.1f} times that of an empty playbook ({nothing:.2f} s)")
        print("tasks, skipped ones included: " + ", ".join(f"{host} {len(names)}" for host, names in self.tasks().items()))
        print(f"requests to AWS: {len(self.cloud.control.calls())}")

    def tasks(self) -> dict[str, list[str]]:
        """Return the tasks that each host has had in the last run, skipped ones included."""
        found: dict[str, list[str]] = json.loads(self.counts.read_text())
        return found

    def hosts(self) -> dict[str, Host]:
        """Return the hosts in order, in the form that launchers receive. Each host is named as in the ssh configuration."""
        metadata = json.loads(self.run(*self.on(f"{CLUSTER}-master", "cat /opt/deeplearning/metadata.json")))
        names = [f"{CLUSTER}-master", *(f"{CLUSTER}-worker{each['number']}" for each in metadata["workers"][1:])]
        hosts = [Host(each["name"], each["address"], each["number"], (), "eth0") for each in metadata["workers"]]
        return dict(zip(names, hosts, strict=True))

    def by_hand(self, job: str, hosts: Mapping[str, Host]) -> float:
        """Start the same ranks with ssh; return the seconds until the script prints its first line."""
        options = {name: option.get("default") for name, option in LAUNCHERS[LAUNCHER].options.items()}
        program = Program(job, PYTHON, f"/efs/by-hand/{job}.py", options=options)
        processes = LAUNCHERS[LAUNCHER].plan(program, list(hosts.values()))
        started = time.time()
        first, *others = hosts
        subprocess.run(self.on(first, f"mkdir -p /efs/by-hand && cat >{program.script}"), input=SCRIPT, text=True, check=True)
        running = [
            subprocess.Popen(self.on(name, command_line(process)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for name, process in zip([first, *others], processes, strict=True)
        ]
        outputs = [each.communicate()[0] for each in running]
        if any(each.returncode for each in running):
            sys.exit("by hand it failed:\n" + "".join(outputs))
        return first_line(outputs[0]) - started


def command_line(process: Process) -> str:
    """Return a shell command that runs a process planned by a launcher."""
    return shlex.join(["env", *(f"{name}={value}" for name, value in process.environment.items()), *process.argv])


def first_line(output: str) -> float:
    """Return the time in the first line that the script has printed."""
    found = FIRST_LINE.search(output)
    if not found:
        sys.exit(f"the script has printed nothing:\n{output}")
    return float(found.group(1))


def measure(bench: Bench, rounds: int) -> list[tuple[float, float]]:
    """For each round, return the seconds that the start takes with the playbook and by hand.

    The order of the two methods alternates between rounds.
    """
    bench.train("converge")
    hosts = bench.hosts()
    pairs = []
    for number in range(1, rounds + 1):
        job = f"round{number}"
        if number % 2:
            ours, theirs = bench.train(job), bench.by_hand(job, hosts)
        else:
            theirs, ours = bench.by_hand(job, hosts), bench.train(job)
        print(f"round {number}  playbook {ours:6.2f} s  by hand {theirs:6.2f} s  more {ours - theirs:6.2f} s", flush=True)
        pairs.append((ours, theirs))
    return pairs


def main() -> int:
    """Return 0 if the goal is met, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: %(default)s)")
    parser.add_argument("--hosts", type=int, default=3, help="number of hosts (default: %(default)s)")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-") as folder,
        unused_range() as network,
        LocalCloud(Path(folder) / "home") as cloud,
    ):
        print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
        bench = Bench(cloud, network, Path(folder), options.hosts)
        pairs = measure(bench, options.rounds)
        bench.costs()
        return 0 if report(pairs, "playbook", "by hand", GOAL) else 1


if __name__ == "__main__":
    sys.exit(main())
