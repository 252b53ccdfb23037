"""Runs the jobs of the suite with their faults on hosts of the local cloud, and collects the evidence for the judge."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause, explain
from hosts.cluster import FILE_SYSTEM, Cluster
from local_cloud.hosts.podman import as_root
from local_cloud.testing import bare_hosts

from .catalogue import RANKS
from .faults import checkpoints, controller, machines, network, processes, storage
from .job import WORKLOAD, Job
from .judge import Curve, Evidence
from .spot import SpotHosts

CHECKPOINT_FILE_SYSTEM = "fs-0123456789abcdef1"
MEGABYTES = {FILE_SYSTEM: 200, CHECKPOINT_FILE_SYSTEM: 20}
INJECTORS = {module.__name__.rpartition(".")[2]: module for module in (checkpoints, controller, machines, network, processes, storage)}


class ChaosCluster(Cluster):
    """Four hosts whose shared storage is a small file system, and a second small file system for checkpoints."""

    def __init__(self, folder, runtime, hosts, has_own_disks, metadata):
        super().__init__(folder, runtime, hosts)
        self.has_own_disks, self.metadata = has_own_disks, metadata
        self.storage = str(folder / "file-systems" / FILE_SYSTEM)
        self.repairs = []

    def prepare(self):
        # A folder that the local cloud creates belongs to the user who is root on hosts.
        self.runtime.export("fs-example", [])
        for name in MEGABYTES:
            self.runtime.export(name, [name])
            example, place = (self.folder / "file-systems" / each for each in ("fs-example", name))
            subprocess.run(as_root("chown", f"--reference={example}", str(place)), check=True)
            if self.has_own_disks:
                subprocess.run(as_root("rmdir", str(place / "lost+found")), check=True)
        for number in range(1, len(self.hosts) + 1):
            self.prepare_host(number)

    def prepare_host(self, number):
        self.configure_host(number)
        self.metadata.open(self.hosts[number - 1])
        self.hosts[number - 1].ssh(
            "sudo mkdir -p /checkpoints && "
            f"sudo mount -t nfs4 -o nfsvers=4.1 {CHECKPOINT_FILE_SYSTEM}:/ /checkpoints && sudo chmod 1777 /checkpoints"
        )

    def repair(self):
        """Undo the changes that faults made to hosts."""
        while self.repairs:
            self.repairs.pop()()


@contextlib.contextmanager
def chaos_cluster(folder):
    """Boot four hosts with separate storage."""
    with contextlib.ExitStack() as stack:
        disks = [stack.enter_context(storage.small_disk(folder / "file-systems" / name, size)) for name, size in MEGABYTES.items()]
        runtime, hosts = stack.enter_context(bare_hosts(folder, count=RANKS, with_fuse=True))
        cluster = ChaosCluster(folder, runtime, hosts, all(disks), stack.enter_context(SpotHosts(runtime)))
        cluster.prepare()
        yield cluster


def can_inject(cluster, fault):
    """Return whether a fault can be injected on this machine. A separate file system can be filled and suspended, but not the file system
    that the machine itself uses. The storage of a single host needs FUSE.
    """
    if fault.injector == "health.storage":
        return not cluster.hosts[0].ssh("test -c /dev/fuse", check=False).returncode
    return cluster.has_own_disks or not fault.injector.startswith(("storage.fill", "storage.stall"))


def run(cluster, fault, seed, number=0):
    """Run a job with a fault, and return the evidence."""
    job = Job(cluster, f"{fault.name.replace('_', '-')}-{number}", f"{seed} {number} {fault.name}", fault.began_with)
    problems = []
    try:
        with job.undo:
            job.start(options(fault, job.name), watched=fault.watched)
            module, _dot, name = fault.injector.partition(".")
            try:
                getattr(INJECTORS[module], name)(job, **fault.arguments)
            except (TimeoutError, subprocess.SubprocessError, OSError) as error:
                problems.append(f"{fault.injector}: {type(error).__name__}: {error}")
            return collect(job, problems)
    finally:
        job.remove()
        cluster.repair()


def collect(job, problems):
    """Wait for the end of a job, and return the evidence."""
    has_ended = job.wait_for_end()
    survivors = job.wait_without_survivors()
    said = job.info()
    said["attempts"] = [{**one, "cause": attempt_cause(one), "why": explain(one)} for one in said["attempts"]]
    created, wall = job.lifetime()
    return Evidence(
        has_ended,
        job.curve(),
        job.result(),
        survivors,
        job.verdicts(),
        job.decisions(),
        said,
        job.target,
        job.strikes,
        [worker["name"] for worker in job.cluster.workers],
        [host.private_ip for host in job.cluster.hosts],
        created,
        wall,
        problems,
    )


def options(fault, name):
    """Return the options of the job into which the fault is injected."""
    found = {**fault.options, "role_defaults": fault.role_defaults}
    if found.pop("checkpoints", None):
        found.update(storage.on_own_disk(name))
    return found


def undisturbed(steps, ranks=RANKS):
    """Run the script on this machine, without the collection and without a fault.

    Return the losses and the result that the script has written.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "hostfile").write_text("127.0.0.1\n")
        running = []
        for rank in range(ranks):
            environment = {
                "DEEPLEARNING_RANK": str(rank),
                "DEEPLEARNING_WORLD_SIZE": str(ranks),
                "DEEPLEARNING_ATTEMPT": "1",
                "DEEPLEARNING_JOB_DIRECTORY": place,
                "DEEPLEARNING_CHECKPOINT_DIRECTORY": f"{place}/checkpoints",
                "DEEPLEARNING_PROGRESS": f"{place}/progress.jsonl",
                "DEEPLEARNING_HOSTFILE": f"{place}/hostfile",
                "CHAOS_STEPS": str(steps),
                "CHAOS_STEP_SECONDS": "0",
            }
            running.append(subprocess.Popen([sys.executable, str(WORKLOAD), "rank"], env={**os.environ, **environment}))
        assert [process.wait(timeout=120) for process in running] == [0] * ranks
        entries = [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]
        result = json.loads((folder / "result.json").read_text())
    return Curve({entry["step"]: entry["loss"] for entry in entries if "step" in entry}, result["parameters"])


def undisturbed_job(fault):
    """Return the arguments of `undisturbed` for the job with this fault: the number of steps and the number of ranks."""
    return int(fault.options.get("environment", {}).get("CHAOS_STEPS", 60)), fault.began_with
