"""Hosts on which a queue runs, for tests of Slurm and SGE."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mounts
from gpu_tools import driver, program, smi
from local_cloud.testing import BareHost, bare_hosts, wait_until

from .packages import purge
from .project import FILE_SYSTEM, REGION, Project, changes

# Workers of MXNet add their numbers.
MXNET_SUM = """
import socket
import mxnet as mx
store = mx.kvstore.create("dist_sync")
total = mx.nd.zeros(1)
store.init("sum", total)
store.push("sum", mx.nd.array([store.rank + 1]))
store.pull("sum", total)
print(f"the sum is {total.asscalar()} on {socket.gethostname()}", flush=True)
mx.nd.waitall()
"""

DOCS = Path(__file__).resolve().parents[2] / "docs"

EFS = mounts.efs(FILE_SYSTEM, REGION, "/efs")
BEFORE = ("ssh_trust", "shared_storage", "worker_metadata")
KEY = "/etc/munge/deeplearning.key"
GPUS = 2
# A script that ends when the file exists.
UNTIL_GO = "until [ -e /efs/go ]; do sleep 0.2; done"


def wait(condition: Callable[[], object]) -> None:
    """Wait as long as other tests do, but poll less often, because each poll opens a connection."""
    wait_until(condition, interval=0.5)


class QueueHosts(Project):
    """Hosts with two simulated GPUs each (nvidia-smi and device files), and a queue. A subclass defines the queue and its commands.

    `parameters` are variables of the role. `running`, `waiting`, `held` and `ended` are states of jobs, and `ready` is the state of a node.
    `hold`, `on`, `array` and `one_gpu` are options for submitting a script: hold the script, choose its host, run it several times, give it
    a GPU.
    """

    role: str
    title: str
    parameters: dict[str, object]
    running: str
    waiting: str
    held: str
    ended: str
    ready: str
    hold: str
    on: str
    array: str
    one_gpu: str
    list_jobs: str
    cancel: str
    cancel_all: str

    def submit(self, script: str, *options: str) -> str:
        """Submit a script as the login user and return the ID of the job."""
        raise NotImplementedError

    def state(self, job: str) -> str:
        """Return the state of a user's job, or '' if the queue no longer knows it."""
        raise NotImplementedError

    def output(self, job: str) -> str:
        """Return the output of a user's job."""
        raise NotImplementedError

    def entries(self) -> dict[str, str]:
        """Return the names and states of root's jobs in the queue."""
        raise NotImplementedError

    def identity(self, name: str) -> str:
        """Return the ID of a training job in the queue."""
        raise NotImplementedError

    def first_host(self, name: str) -> str:
        """Return the name of the host whose program leads a training job."""
        raise NotImplementedError

    def nodes(self) -> dict[str, str]:
        """Return the state of each node."""
        raise NotImplementedError

    @property
    def master(self) -> BareHost:
        return self.hosts[0]

    @property
    def names(self) -> list[str]:
        return [self.name(number) for number in range(1, len(self.hosts) + 1)]

    def number(self, name: str) -> int:
        return self.names.index(name) + 1

    def converge(self, count: int = 0, **variables: object) -> dict[str, int]:
        """Run the role with the first `count` hosts, or with all hosts, and return the number of changed tasks on each host."""
        self.write(count or len(self.hosts), **{**self.parameters, **variables})
        return changes(self.play(self.role))

    def wait_for(self, job: str, state: str) -> None:
        wait(lambda: self.state(job) == state)

    def wait_for_nodes(self, **states: str) -> None:
        """Wait until all nodes are ready, or have the given states."""
        wanted = {**dict.fromkeys(self.names, self.ready), **states}
        wait(lambda: self.nodes() == wanted)

    def restore(self) -> None:
        """Undo what a failed test may have left behind: jobs, drained nodes and removed hosts."""
        for number, host in enumerate(self.hosts, 1):
            if not self.runtime.is_alive(host.name):
                self.replace(number)
        self.master.ssh(f"{self.cancel_all}; rm -f /efs/go /efs/later", check=False)
        wait(lambda: self.master.ssh(self.list_jobs, check=False).stdout == "")
        if self.nodes() != dict.fromkeys(self.names, self.ready):
            self.converge()
            self.wait_for_nodes()

    def wait_until_saved(self) -> None:
        """Wait until the queue's files contain the current state of all jobs."""

    def replace(self, number: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Boot and configure a new host in place of a removed host. The new host has a different address. Return the run of the roles."""
        former = self.hosts[number - 1]
        network, last = former.private_ip.rsplit(".", 1)
        host = dataclasses.replace(former, private_ip=f"{network}.{int(last) + len(self.hosts)}")
        self.hosts[number - 1] = host
        self.runtime.start(host.spec())
        wait(lambda: self.runtime.is_booted(host.name))
        self.consoles[host.name] = self.console_keys(host)
        add_gpus(host)
        # On AWS, the new host would have a different instance ID. Connections to the former host must not be reused.
        (self.directory / "known_hosts").unlink()
        shutil.rmtree(self.directory / "control", ignore_errors=True)
        self.write(len(self.hosts), **self.parameters)
        return self.play(*BEFORE, self.role, arguments=arguments)

    def train(
        self, name: str, script: str, /, *arguments: str, check: bool = True, **variables: object
    ) -> subprocess.CompletedProcess[str]:
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
def queue_hosts(kind: type[Hosts], folder: Path, environments: Collection[str] = ("pytorch",), count: int = 3) -> Iterator[Hosts]:
    """Boot hosts and run the role of the queue on them."""
    with bare_hosts(folder, count, environments=environments) as (runtime, hosts):
        queue = kind(folder, runtime, hosts)
        runtime.export(FILE_SYSTEM, [EFS.source.split(":", maxsplit=1)[0]])
        for host in hosts:
            add_gpus(host)
        queue.write(count, **queue.parameters)
        queue.play(*BEFORE, queue.role)
        yield queue


def add_gpus(host: BareHost) -> None:
    """Simulate two GPUs on a host: an nvidia-smi that lists them, device files, and the driver's file about the model of a GPU."""
    script = program(*driver(smi(GPUS)))
    devices = " && ".join(f"sudo touch /dev/nvidia{number} && sudo mount --bind /dev/null /dev/nvidia{number}" for number in range(GPUS))
    model = "/proc/driver/nvidia/gpus/0000:00:1e.0"
    host.ssh(f"sudo mount -t tmpfs none /proc/driver && sudo mkdir -p {model} && echo 'Model: NVIDIA H100' | sudo tee {model}/information")
    host.ssh(
        f"printf %s {shlex.quote(script)} | sudo tee /usr/local/bin/nvidia-smi >/dev/null && "
        f"sudo chmod 755 /usr/local/bin/nvidia-smi && {devices}"
    )


def check_turns(turns: list[str], places: int) -> None:
    """Check that the intervals of each place do not overlap, and that the number of places is `places`.

    `turns` lists the place, start and end of each interval.
    """
    uses: dict[str, list[tuple[float, float]]] = {}
    for place, start, end in zip(turns[::3], turns[1::3], turns[2::3], strict=True):
        uses.setdefault(place, []).append((float(start), float(end)))
    assert len(uses) == places
    for times in uses.values():
        times.sort()
        assert all(end <= start for (_start, end), (start, _end) in itertools.pairwise(times))


def check_that_a_waiting_job_is_stopped(queue: QueueHosts, reason: str, *options: str) -> None:
    """Stop a training job that waits behind another one. With `options`, a user's job has the same name as the training job."""
    queue.train("first", UNTIL_GO)
    queue.train("second", "exit 1")
    wait(lambda: queue.entries() == {"first": queue.running, "second": queue.waiting})
    shown = rf"^second queued since .* UTC, in {queue.title} as job \d+: {reason}, command bash$"
    assert re.search(shown, queue.status("second"))
    kept = queue.master.ssh("sudo find /var/lib/deeplearning-queue -type d -printf '%u %m\\n'").stdout
    assert kept.splitlines() == ["root 711", *["root 700"] * 2], "they contain secrets, and the program that root runs"
    same = queue.submit("true", queue.hold, *options)
    queue.stop("second")
    assert queue.entries() == {"first": queue.running}
    assert queue.status("second").startswith("second stopped before it started, ")
    assert queue.left("second") == []
    assert queue.state(same) == queue.held, "another user's job of the same name"
    queue.master.ssh("touch /efs/go")
    queue.wait_for_end("first")
    assert queue.status("first").startswith("first succeeded after ")
    assert queue.left("first") == []


def check_that_a_running_job_is_stopped(queue: QueueHosts, how: str) -> None:
    """Stop a running job: with the playbook (`stop`), with the queue (`cancel`), or by killing the process that holds a host (`kill`)."""
    name = f"stopped-by-{how}"
    queue.train(name, UNTIL_GO)
    wait(lambda: queue.entries() == {name: queue.running})
    queue.wait_for_start(name, 3)
    if how == "stop":
        queue.stop(name)
        assert queue.entries() == {}
        assert queue.left(name) == []
    elif how == "cancel":
        command = f"{queue.cancel} {queue.identity(name)}"
        queue.master.ssh(command, check=False)
        assert queue.entries() == {name: queue.running}, "only root cancels training jobs with the queue's command"
        queue.master.ssh(f"sudo {command}")
    else:
        queue.hosts[1].ssh(f"sudo pkill --signal KILL --full /var/lib/deeplearning-queue/{name}/[h]old.zip")
    queue.wait_for_end(name)
    wait(lambda: [path for path in queue.left(name) if path.startswith("/proc")] == [])
    assert queue.status(name).startswith(f"{name} stopped after ")


def check_that_a_job_needs_all_its_hosts(queue: QueueHosts) -> None:
    """A training job that does not wait in the queue uses one of the hosts."""
    queue.train("rogue", UNTIL_GO, "--limit", queue.name(2), queue="")
    done = queue.train("refused", "sleep 600", wait=True, check=False)
    assert re.search(r"job refused was not started: trust-worker2: job\s+rogue uses GPU 0, 1 of trust-worker2", done.stdout), done.stdout
    assert queue.left("refused") == []
    wait(lambda: queue.entries() == {})
    assert queue.status("refused").startswith("refused failed ")
    queue.stop("rogue")


def check_that_a_job_continues_on_the_other_host(queue: QueueHosts, name: str, *, loses_first: bool, **variables: object) -> None:
    """A training job on workers 2 and 3 loses the host whose program leads the job, or the other one."""
    script = "[ $DEEPLEARNING_ATTEMPT != 1 ] || sleep 600"
    others = ("--limit", f"{queue.name(2)},{queue.name(3)}")
    queue.train(name, script, *others, restarts=1, min_hosts=1, heartbeat_timeout=30, **variables)
    queue.wait_for_start(name, 2)
    first = queue.number(queue.first_host(name))
    queue.runtime.remove(queue.hosts[(first if loses_first else 5 - first) - 1].name)
    queue.wait_for_end(name)
    assert queue.status(name).startswith(f"{name} succeeded after ")


def check_the_script_of_the_documentation(queue: QueueHosts, edit: Callable[[str], str] = str) -> None:
    """Run the script of the documentation page, in which torchrun starts one process on each host."""
    page = (DOCS / f"{queue.role}.md").read_text()
    script = re.findall(r"^```bash\n#!/bin/bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    queue.master.ssh(
        "cat >/efs/train.py <<'END'\nimport torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nprint(f'rank {dist.get_rank()} of {dist.get_world_size()}')\nEND"
    )
    job = queue.submit(edit(script.replace("--nproc-per-node=gpu", "--nproc-per-node=1")))
    queue.wait_for(job, queue.ended)
    assert sorted(line for line in queue.output(job).splitlines() if line.startswith("rank")) == [f"rank {rank} of 3" for rank in range(3)]


def check_that_the_queue_goes_away_once_it_is_empty(queue: QueueHosts, files: str, daemons: str) -> None:
    """The role removes the files and stops the daemons. A training job for the queue is then refused."""
    job = queue.submit("sleep 600", queue.hold)
    queue.write(3, **queue.parameters, **{f"{queue.role}_state": "absent"})
    refused = queue.play(queue.role, check=False)
    assert f"the queue contains job {job}" in refused.stdout
    queue.master.ssh(f"{queue.cancel} {job}")
    wait(lambda: queue.master.ssh(queue.list_jobs).stdout == "")
    assert set(changes(queue.play(queue.role, arguments=("--check",))).values()) == {2, 3}
    assert changes(queue.play(queue.role)) == {queue.name(1): 3, queue.name(2): 2, queue.name(3): 2}
    for host in queue.hosts:
        assert host.ssh(f"ls -d {KEY} {files}", check=False).stdout == ""
        active = host.ssh(f"systemctl is-active munge {daemons}", check=False).stdout.split()
        assert active == ["inactive"] * 3
    assert set(changes(queue.play(queue.role)).values()) == {0}
    name = f"without-{queue.role}"
    refused = queue.train(name, "true", check=False)
    fatal = [line for line in refused.stdout.splitlines() if line.startswith("fatal: ")]
    assert len(fatal) == 1
    assert f"Run the playbook deeplearning.cluster.{queue.role}, or remove training_job_queue." in fatal[0]
    assert queue.master.ssh(f"ls /efs/jobs/{name}", check=False).returncode != 0


def check_that_missing_packages_are_installed(queue: QueueHosts, packages: Sequence[str], services: Sequence[str]) -> None:
    """The master and a worker have none of the queue's packages, as on AWS. No service starts before the role has configured it."""
    variables = {**queue.parameters, f"{queue.role}_state": "absent"}
    queue.write(3, **variables)
    queue.play(queue.role)
    purge(queue, (1, 2), packages)
    since = queue.master.ssh("date +@%s").stdout.strip()
    queue.write(3, **queue.parameters)
    check = changes(queue.play(queue.role, arguments=("--check",)))
    assert min(check[queue.name(1)], check[queue.name(2)]) > 0
    assert queue.master.ssh(f"dpkg --status {packages[0]}", check=False).returncode != 0
    queue.converge()
    queue.wait_for_nodes()
    for host, expected in ((queue.master, services), (queue.hosts[1], services[1:])):
        said = host.ssh(f"sudo journalctl --quiet --since={since} --output=cat _PID=1").stdout
        started = [service for service in services for _line in re.findall(rf"^Started .*{service}\b", said, re.MULTILINE)]
        assert started == list(expected), said
        assert "Failed to start" not in said
    job = queue.submit("hostname", queue.on.format(queue.name(2)))
    queue.wait_for(job, queue.ended)
    assert queue.output(job) == f"{queue.name(2)}\n"
    assert set(queue.converge().values()) == {0}
