"""Hosts on which a queue runs, for tests of Slurm and SGE."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage import boot, mounts
from local_cloud.testing import BareHost, bare_hosts, wait_until

from .project import FILE_SYSTEM, REGION, Project, changes

EFS = mounts.efs(FILE_SYSTEM, REGION, "/efs")
USER_DATA = b"#cloud-config\n" + json.dumps(boot.cloud_config([EFS], "ubuntu")).encode()
BEFORE = ("ssh_trust", "shared_storage", "worker_metadata")
KEY = "/etc/munge/deeplearning.key"
GPUS = 2
#: A script that ends when the file exists.
UNTIL_GO = "until [ -e /efs/go ]; do sleep 0.2; done"


def wait(condition: Callable[[], object]) -> None:
    """Wait as long as other tests do, but poll less often, because each poll opens a connection."""
    wait_until(condition, interval=0.5)


class QueueHosts(Project):
    """Three hosts with two simulated GPUs each (nvidia-smi and device files). A subclass names the role of the queue and its variables."""

    role: str
    parameters: dict[str, object]

    def entries(self) -> dict[str, str]:
        """Return the names and states of root's jobs in the queue."""
        raise NotImplementedError

    @property
    def master(self) -> BareHost:
        return self.hosts[0]

    def converge(self, count: int = 3, **variables: object) -> dict[str, int]:
        """Run the role with the first `count` hosts and return the number of changed tasks on each host."""
        self.write(count, **self.parameters, **variables)
        return changes(self.play(self.role))

    def replace(self, number: int) -> None:
        """Boot a new host, which has a different address, in place of a removed one, and configure the new host."""
        former = self.hosts[number - 1]
        network, last = former.private_ip.rsplit(".", 1)
        host = dataclasses.replace(former, private_ip=f"{network}.{int(last) + len(self.hosts)}")
        self.hosts[number - 1] = host
        self.runtime.start(host.spec(USER_DATA))
        wait(lambda: self.runtime.is_booted(host.name))
        self.consoles[host.name] = self.console_keys(host)
        add_gpus(host)
        # On AWS, the new host would have a different instance ID. Connections to the former host must not be reused.
        (self.directory / "known_hosts").unlink()
        shutil.rmtree(self.directory / "control", ignore_errors=True)
        self.write(3, **self.parameters)
        self.play(*BEFORE, self.role)

    def train(self, name: str, script: str, *arguments: str, check: bool = True, **variables: object) -> subprocess.CompletedProcess[str]:
        """Run a shell script as a job that waits in the queue. By default, do not wait for the job."""
        options = {
            "name": name,
            "command": ["bash", "-c", script],
            "launcher": "command",
            "queue": self.role,
            "wait": False,
            "report": False,
            "health_check": False,
            "restarts": 0,
            **variables,
        }
        given = json.dumps({f"training_job_{key}": value for key, value in options.items()})
        return self.play("training_job", arguments=("-e", given, *arguments), check=check)

    def status(self, name: str) -> str:
        """Return the line that status.yml shows for a job."""
        shown = self.run("deeplearning.cluster.status", ("-e", f"training_job_name={name}")).stdout
        return next(line for line in shown.splitlines() if line.startswith(f"{name} "))

    def stop(self, name: str) -> str:
        return self.run("deeplearning.cluster.stop", ("-e", f"training_job_name={name}")).stdout

    def wait_for_start(self, name: str, count: int) -> None:
        """Wait until all processes of a training job have records."""
        wait(lambda: len(self.master.ssh(f"ls /efs/jobs/{name}/status/rank*.json", check=False).stdout.split()) == count)

    def wait_for_end(self, name: str) -> None:
        """Wait until a training job has ended and is no longer in the queue."""
        wait(lambda: self.master.ssh(f"test -e /efs/jobs/{name}/status/over", check=False).returncode == 0)
        wait(lambda: name not in self.entries())

    def left(self, name: str) -> list[str]:
        """Return the remaining processes of a training job, and the files that its hosts have kept for the queue."""
        command = (
            f"sudo grep -lzx DEEPLEARNING_JOB={name} /proc/[0-9]*/environ 2>/dev/null; sudo find /var/lib/deeplearning-queue -name {name}"
        )
        return [line for host in self.hosts for line in host.ssh(command, check=False).stdout.split()]


Hosts = TypeVar("Hosts", bound=QueueHosts)


@contextmanager
def queue_hosts(kind: type[Hosts], folder: Path, environments: Collection[str] = ("pytorch",)) -> Iterator[Hosts]:
    """Boot three hosts and run the role of the queue on them."""
    with bare_hosts(folder, 3, USER_DATA, environments=environments) as (runtime, hosts):
        queue = kind(folder, runtime, hosts)
        runtime.export(FILE_SYSTEM, [EFS.source.split(":", maxsplit=1)[0]])
        for host in hosts:
            add_gpus(host)
        queue.write(3, **queue.parameters)
        queue.play(*BEFORE, queue.role)
        yield queue


def add_gpus(host: BareHost) -> None:
    """Simulate two GPUs on a host for Slurm: an nvidia-smi that lists them, and device files."""
    lines = "".join(f"echo 'GPU {number}: a GPU (UUID: GPU-{number})'\n" for number in range(GPUS))
    devices = " && ".join(f"sudo touch /dev/nvidia{number} && sudo mount --bind /dev/null /dev/nvidia{number}" for number in range(GPUS))
    host.ssh(
        f"sudo tee /usr/local/bin/nvidia-smi >/dev/null <<'END'\n#!/bin/sh\n{lines}END\n"
        f"sudo chmod 755 /usr/local/bin/nvidia-smi && {devices}"
    )
